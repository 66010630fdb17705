#pragma once
// Boxes of tensors by the copy engine, named barriers and stmatrix: what the wgmma and the tcgen05 variant share.
// Device code for sm_90 and newer.
#include <cuda.h>

#include "kernels/common/copy_engine.cuh"

namespace sdm::dense_rescan {

using device::arrive, device::arrive_expecting, device::commit_stores, device::fence_barrier_init,
    device::fence_for_engines, device::init_barrier, device::load_bytes, device::wait, device::wait_stores,
    device::wait_stores_read;

/// Of `threads` threads (whole warps); ids 1 .. 15.
__device__ __forceinline__ void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void load_box(std::uint32_t to, const CUtensorMap& map, int column, int row,
                                         std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void store_box(const CUtensorMap& map, int column, int row, std::uint32_t from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
               "r"(column), "r"(row), "r"(from)
               : "memory");
}
__device__ __forceinline__ void store_matrices(std::uint32_t address, const std::uint32_t (&d)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(d[0]), "r"(d[1]),
               "r"(d[2]), "r"(d[3])
               : "memory");
}

}  // namespace sdm::dense_rescan
