#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace sdm {

/// A named array of the pipeline: a view, it owns nothing. Row-major.
struct Tensor {
  enum class Role : std::uint8_t {
    input,     ///< never written by a stage
    state,     ///< read and written: the banks; restored before every run
    output,    ///< fully written by its stage
    sparse,    ///< written only where groups are: starts zeroed (the snapshot)
    scratch,   ///< contents are no result
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

}  // namespace sdm
