#include <cstring>

#include "kernels/common/sum_parts.h"
#include "kernels/gather_grad/gather_grad.h"

namespace sdm::gather_grad {
namespace {

/// One plane of a dot: `lanes` partials of one vector each, added pairwise adjacent (distance 1, 2, 4, ..).
template <typename T>
float plane_dot(const float* x, const T* y, int head_dim, const DotShape& shape, int plane) {
  float partial[32] = {};
  for (int lane = 0; lane < shape.lanes; ++lane) {
    const std::int64_t begin = (std::int64_t{plane} * shape.lanes + lane) * shape.vec;
    if (begin >= head_dim) break;
    float sum = x[begin] * load_element(y[begin]);
    for (int i = 1; i < shape.vec; ++i) sum = fma_rn(x[begin + i], load_element(y[begin + i]), sum);
    partial[lane] = sum;
  }
  for (int distance = 1; distance < shape.lanes; distance *= 2)
    for (int lane = 0; lane < shape.lanes; lane += 2 * distance) partial[lane] += partial[lane + distance];
  return partial[0];
}

template <typename T>
void token_rows(const Params& p, const DotShape& shape, std::int64_t row, bool valid, float* scratch) {
  const int d = p.dims.head_dim, w = p.dims.writes;
  const std::int64_t at = row * w, plane_size = p.dims.chunks() * p.dims.write_positions();
  const auto weight = [&](int e) { return p.write_weight[at + e]; };
  const auto grad_row = [&](int e) { return static_cast<const T*>(p.grad.data) + host::index_at(p.k_idx, at + e) * d; };
  host::sum_parts<T>(valid ? w : 0, p.groups, d, weight, grad_row, scratch, p.d_dv_w + row * d);
  for (int plane = 0; plane < shape.planes; ++plane)
    for (int e = 0; e < w; ++e)
      p.d_ww_planes[plane * plane_size + at + e] =
          valid ? canonical(plane_dot(p.delta_v + row * d, grad_row(e), d, shape, plane)) : 0.0f;
}

/// Copies the row of each group whose FIRST entry is this token's.
template <typename T>
void copy_rows(const Params& p, std::int64_t row) {
  const int d = p.dims.head_dim, w = p.dims.writes;
  for (std::int64_t e = row * w; e < (row + 1) * w; ++e) {
    const std::int64_t copy = host::group_row(p.place, p.dims.write_positions(), e);
    if (copy < 0) continue;
    std::memcpy(static_cast<T*>(p.gradient_rows) + copy * d,
                static_cast<const T*>(p.grad.data) + host::index_at(p.k_idx, e) * d,
                sizeof(T) * static_cast<std::size_t>(d));
  }
}

}  // namespace

DotShape dot_shape(std::int32_t head_dim, DType grad) {
  const auto row_bytes = static_cast<std::int64_t>(size_of(grad)) * head_dim;
  if (row_bytes % 16 != 0) return {1, 32, (head_dim + 31) / 32};
  const auto vec = static_cast<std::int32_t>(16 / size_of(grad));
  const std::int32_t vectors = head_dim / vec;
  std::int32_t lanes = 8;
  while (lanes < vectors && lanes < 32) lanes *= 2;
  return {vec, lanes, (vectors + lanes - 1) / lanes};
}

std::int32_t groups_for(const Dims& dims, DType grad) {
  return host::sum_groups(dims.chunk, host::row_vectors(dims.head_dim, grad), dims.writes);
}

void replay(const Params& p, Parallel& threads) {
  const std::int64_t tokens = std::int64_t{p.dims.step_streams()} * p.dims.chunk;
  const std::int64_t first_row = std::int64_t{p.step} * p.dims.streams * p.dims.chunk;
  const DotShape shape = dot_shape(p.dims.head_dim, p.grad.dtype);
  dispatch_real(p.grad.dtype, [&]<typename T>() {
    threads.for_ranges(tokens, 8, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> scratch(2 * static_cast<std::size_t>(p.dims.head_dim));
      for (std::int64_t row = first_row + begin; row < first_row + end; ++row) {
        const bool valid = row % p.dims.chunk < p.dims.valid_tokens(p.step);
        token_rows<T>(p, shape, row, valid, scratch.data());
        if (p.copies && valid) copy_rows<T>(p, row);
      }
    });
  });
}

}  // namespace sdm::gather_grad
