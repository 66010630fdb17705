#pragma once
// Blackwell's tensor memory and the products that accumulate in it (PTX ISA, tcgen05). Device code for sm_100a only.
//
// Tensor memory is 128 lanes of 512 columns of 32 bits; an address is lane << 16 | column. A warp reaches the lanes
// 32*(warp%4) .. +31. A product of 128 rows puts row r into lane r; one of 64 rows puts row 16w + i into lane 32w + i,
// i < 16 (half of the lanes stay unused). Either way 16 rows of a warp are loaded and stored as 16 x 256-bit blocks,
// whose fragments are those of mma.cuh: with g = lane/4, q = lane%4, d[4j], d[4j+1] = [g][8j+2q, +1], d[4j+2],
// d[4j+3] = [g+8][..].
#include <cstdint>

namespace sdm::dense_rescan {

// --- allocation: whole warps -----------------------------------------------------------------------------------------

/// Writes the address of `columns` (a power of two, 32 .. 512) to shared memory; waits while a CTA beside has them.
__device__ __forceinline__ void allocate_columns(std::uint32_t slot, int columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(slot), "r"(columns)
               : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void free_columns(std::uint32_t address, int columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns) : "memory");
}

// --- order -----------------------------------------------------------------------------------------------------------

/// Around barriers between threads: tensor memory accesses stay on their side.
__device__ __forceinline__ void fence_before_sync() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ __forceinline__ void fence_after_sync() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
/// Arrives at the barrier once all products that this thread has begun are done.
__device__ __forceinline__ void arrive_after_products(std::uint32_t barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
}

// --- products: one thread --------------------------------------------------------------------------------------------

/// d (+)= a b over 16 sum steps: d in tensor memory, a and b by descriptors (layout.h, tensor_descriptor), shapes and
/// types by `instruction` (layout.h). `accumulate` 0: d starts at zero.
__device__ __forceinline__ void tensor_product(std::uint32_t d, std::uint64_t a, std::uint64_t b,
                                               std::uint32_t instruction, int accumulate) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }" ::"r"(d),
      "l"(a), "l"(b), "r"(instruction), "r"(accumulate)
      : "memory");
}

// --- loads and stores: whole warps -----------------------------------------------------------------------------------

/// 16 rows of kCount/2 columns (a multiple of 32) to fragments, valid after wait_tensor_loads() and pin().
template <int kCount>
__device__ __forceinline__ void load_tensor(float (&d)[kCount], std::uint32_t address) {
  static_assert(kCount % 16 == 0);
#pragma unroll
  for (int i = 0; i < kCount; i += 16)
    asm volatile(
        "tcgen05.ld.sync.aligned.16x256b.x4.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "
        "%15}, [%16];"
        : "=f"(d[i]), "=f"(d[i + 1]), "=f"(d[i + 2]), "=f"(d[i + 3]), "=f"(d[i + 4]), "=f"(d[i + 5]), "=f"(d[i + 6]),
          "=f"(d[i + 7]), "=f"(d[i + 8]), "=f"(d[i + 9]), "=f"(d[i + 10]), "=f"(d[i + 11]), "=f"(d[i + 12]),
          "=f"(d[i + 13]), "=f"(d[i + 14]), "=f"(d[i + 15])
        : "r"(address + i * 2)
        : "memory");
}
template <int kCount>
__device__ __forceinline__ void store_tensor(std::uint32_t address, const float (&d)[kCount]) {
  static_assert(kCount % 16 == 0);
#pragma unroll
  for (int i = 0; i < kCount; i += 16)
    asm volatile(
        "tcgen05.st.sync.aligned.16x256b.x4.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "
        "%15, %16};" ::"r"(address + i * 2),
        "f"(d[i]), "f"(d[i + 1]), "f"(d[i + 2]), "f"(d[i + 3]), "f"(d[i + 4]), "f"(d[i + 5]), "f"(d[i + 6]),
        "f"(d[i + 7]), "f"(d[i + 8]), "f"(d[i + 9]), "f"(d[i + 10]), "f"(d[i + 11]), "f"(d[i + 12]), "f"(d[i + 13]),
        "f"(d[i + 14]), "f"(d[i + 15])
        : "memory");
}
__device__ __forceinline__ void wait_tensor_loads() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wait_tensor_stores() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

}  // namespace sdm::dense_rescan
