#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace sdm {

/// A named array of the pipeline: a view, it owns nothing. Row-major.
struct Tensor {
  enum class Role : std::uint8_t {
    input,    ///< never written by a stage
    state,    ///< read and written: the banks; restored before every run
    output,   ///< fully written by its stage
    lower,    ///< [.., C, C]: so are the lower triangles with their diagonals; the rest starts zeroed and stays
    sparse,   ///< written only where groups are: starts zeroed (the snapshot)
    scratch,  ///< contents are no result
  };
  std::string_view name;
  std::string_view stage;  ///< the stage that makes it; empty for inputs and states
  Role role = Role::output;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;  ///< empty: absent in this case
  int chunk_axis = -1;              ///< the axis that counts chunks, -1 where there is none
  void* data = nullptr;

  bool present() const { return !shape.empty(); }
  std::int64_t count() const {
    std::int64_t product = present() ? 1 : 0;
    for (const std::int64_t extent : shape) product *= extent;
    return product;
  }
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(count()) * size_of(dtype); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

/// A run of bytes inside a tensor.
struct ByteRange {
  std::uint64_t begin, bytes;
};

/// Bytes of a chunk, in one plane of those that lie before the chunk axis.
inline std::uint64_t chunk_bytes(const Tensor& tensor) {
  std::uint64_t bytes = size_of(tensor.dtype);
  for (auto i = static_cast<std::size_t>(tensor.chunk_axis) + 1; i < tensor.shape.size(); ++i)
    bytes *= static_cast<std::uint64_t>(tensor.shape[i]);
  return bytes;
}

/// Where the chunks of one step lie: chunk = step*streams + stream on the chunk axis. The whole tensor where it has no
/// chunk axis or `step` is -1.
inline std::vector<ByteRange> step_ranges(const Tensor& tensor, std::int64_t streams, int step) {
  if (tensor.chunk_axis < 0 || step < 0) return {{0, tensor.bytes()}};
  const auto axis = static_cast<std::size_t>(tensor.chunk_axis);
  const std::uint64_t bytes = chunk_bytes(tensor);
  std::uint64_t outer = 1;
  for (std::size_t i = 0; i < axis; ++i) outer *= static_cast<std::uint64_t>(tensor.shape[i]);
  std::vector<ByteRange> ranges;
  for (std::uint64_t i = 0; i < outer; ++i) {
    const std::uint64_t first_chunk = i * static_cast<std::uint64_t>(tensor.shape[axis]) +
                                      static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(streams);
    ranges.push_back({first_chunk * bytes, static_cast<std::uint64_t>(streams) * bytes});
  }
  return ranges;
}

}  // namespace sdm
