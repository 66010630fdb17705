// write, variant `atomic`: the baseline without sorted owners. A first kernel multiplies the step's rows by their decay
// (and keeps the raw rows), a second adds every entry's term where it falls, by float atomics (pairs of bf16 in a bf16
// bank). Terms of a group meet in any order, and each addition rounds to the bank's type: not deterministic, not equal
// to the replay. It prices determinism and proves that the checks bite.
#include <cuda_bf16.h>

#include "kernels/write/walk.cuh"

namespace sdm::write {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

/// What a warp of either kernel works on: one sorted position of a stream's chunk. grid.y = streams, one warp a
/// position.
struct Position {
  int index, valid;
  std::int64_t chunk, at;  ///< at: of the position among all records
  __device__ __forceinline__ explicit Position(const Params& p)
      : index(static_cast<int>(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32)),
        valid(p.dims.valid_tokens(p.step) * p.dims.writes),
        chunk(std::int64_t{p.step} * p.dims.streams + blockIdx.y),
        at(chunk * p.dims.write_positions() + index) {}
};

/// Valid FIRSTs at positions up to `index` of the chunk, less one: the position's ordinal.
__device__ __forceinline__ int ordinal_at(const Params& p, const Position& position) {
  const int w = position.index / 32, lane = static_cast<int>(threadIdx.x & 31);
  const Record* record = p.record + position.chunk * p.dims.write_positions();
  const bool first = 32 * w + lane <= position.index && (record[32 * w + lane].payload & kFirst) != 0;
  const Window* window = p.window + position.chunk * window_count(p.dims.write_positions());
  return window[w].groups_before + __popc(__ballot_sync(~0u, first)) - 1;
}

template <typename T, bool kSave>
__global__ void __launch_bounds__(256) decay_kernel(const __grid_constant__ Params p) {
  device::wait_for_previous_grid();
  const Position position(p);
  if (position.index >= position.valid) return;
  const Record record = p.record[position.at];
  if ((record.payload & kLast) == 0) return;
  const int head_dim = p.dims.head_dim;
  T* row = static_cast<T*>(p.bank.data) + std::int64_t{record.slot} * head_dim;
  T* saved = nullptr;
  if constexpr (kSave)
    saved = static_cast<T*>(p.snapshot.rows) +
            (position.chunk * p.dims.write_positions() + ordinal_at(p, position)) * head_dim;
  for (int d = static_cast<int>(threadIdx.x & 31); d < head_dim; d += 32) {
    const T old = row[d];
    if constexpr (kSave) saved[d] = old;
    row[d] = store_element<T>(load_element(old) * record.c);
  }
}

__device__ __forceinline__ void add_columns(float* row, const float* token_row, float scale, int d, int head_dim) {
  for (int i = d; i < min(d + 2, head_dim); ++i) atomicAdd(row + i, scale * token_row[i]);
}
/// A pair at once where the row begins at an even element; else one by one.
__device__ __forceinline__ void add_columns(bf16_t* row, const float* token_row, float scale, int d, int head_dim) {
  auto* out = reinterpret_cast<__nv_bfloat16*>(row + d);
  if (head_dim % 2 == 0) {
    atomicAdd(reinterpret_cast<__nv_bfloat162*>(out),
              __floats2bfloat162_rn(scale * token_row[d], scale * token_row[d + 1]));
    return;
  }
  for (int i = 0; i < min(2, head_dim - d); ++i) atomicAdd(out + i, __float2bfloat16_rn(scale * token_row[d + i]));
}

template <typename T>
__global__ void __launch_bounds__(256) add_kernel(const __grid_constant__ Params p) {
  device::wait_for_previous_grid();
  const Position position(p);
  if (position.index >= position.valid) return;
  const Record record = p.record[position.at];
  const int head_dim = p.dims.head_dim;
  T* row = static_cast<T*>(p.bank.data) + std::int64_t{record.slot} * head_dim;
  const float* token_row =
      p.delta_v + (position.chunk * p.dims.chunk + token_of(record.payload)) * std::int64_t{head_dim};
  for (int d = 2 * static_cast<int>(threadIdx.x & 31); d < head_dim; d += 64)
    add_columns(row, token_row, record.scale, d, head_dim);
}

// --- launchers -------------------------------------------------------------------------------------------------------

constexpr int kMostStreams = 65535;  // of grid.y

std::string refuse(const Params& p, const Device&) {
  if (std::string reason = refuse_common(p); !reason.empty()) return reason;
  const Save save = save_of(p.snapshot);
  if (save != Save::none && save != Save::raw)
    return "atomic saves raw snapshots only; for bf16, fp8 and int4 use an exact variant";
  if (p.dims.streams > kMostStreams)
    return "atomic launches at most 65535 streams, not " + std::to_string(p.dims.streams);
  return {};
}

device::LaunchShape shape_of(const Params& p) {
  const int warps = 8, positions = p.dims.valid_tokens(p.step) * p.dims.writes;
  return {.grid = dim3(static_cast<unsigned>(device::ceil_div(positions, warps)),
                       static_cast<unsigned>(p.dims.step_streams())),
          .threads = 32 * warps};
}

void launch(const Params& p, const LaunchContext& context) {
  dispatch_real(p.bank.dtype, [&]<typename T>() {
    dispatch_value<false, true>(p.snapshot.format != SnapshotFormat::none,
                                [&]<bool kSave>() { device::launch(decay_kernel<T, kSave>, shape_of(p), context, p); });
    device::launch(add_kernel<T>, shape_of(p), context, p);
  });
}

std::string describe_launch(const Params& p, const LaunchContext&) {
  return "two kernels, each " + device::describe(shape_of(p)) + "; one position a warp";
}

}  // namespace

const Variant<Params> atomic{
    .name = "atomic",
    .why = "baseline: float atomics, not deterministic; shows what determinism costs and that checks notice its lack",
    .guarantee = Guarantee::approximate,
    .automatic = false,
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::write
