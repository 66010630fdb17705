#pragma once
// Tensor maps of the wgmma variant: how the copy engine sees the arrays. Host code.
#include <cuda.h>

#include <stdexcept>

#include "kernels/dense_rescan/launch.h"
#include "kernels/dense_rescan/layout.h"

namespace sdm::dense_rescan {

/// Arrays as the copy engine sees them: [B*T, HV*K], [B*T, HV*V], checkpoints [B*NT*HV*K, V].
struct Maps {
  CUtensorMap w, kg, u, d_out, checkpoints, v_new;
};

using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                 const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                                 CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/// The driver's function; nothing links to the driver.
inline EncodeTiled encode_tiled() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess)
    throw std::runtime_error("the driver has no cuTensorMapEncodeTiled; version 525 or newer is needed");
  return reinterpret_cast<EncodeTiled>(function);
}

/// A [rows, columns] array of 16-bit elements in boxes of box_rows x 64 with the 128-byte swizzle.
inline CUtensorMap make_map(EncodeTiled encode, const Params& p, const void* data, std::int64_t rows,
                            std::int64_t columns, int box_rows) {
  CUtensorMap map{};
  const cuuint64_t extents[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t stride[] = {2 * static_cast<cuuint64_t>(columns)};
  const cuuint32_t box[] = {kBoxColumns, static_cast<cuuint32_t>(box_rows)}, steps[] = {1, 1};
  const auto type = p.io == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  const CUresult result =
      encode(&map, type, 2, const_cast<void*>(data), extents, stride, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw std::runtime_error(
        std::string("cuTensorMapEncodeTiled failed with ").append(std::to_string(static_cast<int>(result))));
  return map;
}

/// Throws std::runtime_error where the driver lacks the function or refuses a map.
inline Maps make_maps(const Params& p) {
  static const EncodeTiled encode = encode_tiled();
  const std::int64_t rows = p.rows() / p.heads, keys = std::int64_t{p.heads} * p.key_dim,
                     values = std::int64_t{p.heads} * p.value_dim;
  const auto map = [&](const void* data, std::int64_t columns) {
    return make_map(encode, p, data, rows, columns, kChunk);
  };
  return {.w = map(p.w, keys),
          .kg = map(p.kg, keys),
          .u = map(p.u, values),
          .d_out = p.d_out ? map(p.d_out, values) : CUtensorMap{},
          .checkpoints = make_map(encode, p, p.checkpoints, p.streams() * p.chunks * p.key_dim, p.value_dim, p.key_dim),
          .v_new = map(p.v_new, values)};
}

}  // namespace sdm::dense_rescan
