#pragma once
// The weighted row sums of gather and gather_grad (spec 2.6, order in sum_parts.h). Device code only.
#include "kernels/common/entry_values.cuh"
#include "kernels/common/launch.h"
#include "kernels/common/prefetch.cuh"
#include "kernels/common/row_plan.h"
#include "kernels/common/rows.cuh"

namespace sdm::device {

// --- loads that may be off: zeros instead of a row, without a branch between the loads of a batch --------------------

/// Only constants, chosen by what is the same for a warp: the policy then lies in uniform registers, where loads want
/// it (H200, where each load of the fused forward had to take it there: flag64 6,722 us in place of 5,977).
__device__ __forceinline__ std::uint64_t policy_of(Stay stay) {
  std::uint64_t policy;
  switch (stay) {
    case Stay::leave: asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy)); break;
    case Stay::usual: asm("createpolicy.fractional.L2::evict_unchanged.b64 %0, 1.0;" : "=l"(policy)); break;
    case Stay::quarter:
      asm("createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %0, 0.25;" : "=l"(policy));
      break;
    default: asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  }
  return policy;
}

/// A coherent 16-byte load that leaves no line in L1 (load_row) and follows `policy` in L2, or zeros.
__device__ __forceinline__ uint4 load_row_if(bool on, const void* p, std::uint64_t policy, uint4 v = {0, 0, 0, 0}) {
  asm volatile(
      "{\n .reg .pred on;\n setp.ne.u32 on, %5, 0;\n"
      " @on ld.global.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %6;\n}"
      : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
      : "l"(p), "r"(static_cast<unsigned>(on)), "l"(policy));
  return v;
}

/// What one lane holds of a row of T: 16 bytes, or (kWhole false) one element of a row that is no multiple of 16 bytes.
template <typename T, bool kWhole>
struct RowVector {
  using Raw = uint4;
  static constexpr int kElements = kVec<T>;
  __device__ static uint4 load(bool on, const char* p, std::uint64_t policy) { return load_row_if(on, p, policy); }
  __device__ static void widen(const Raw& raw, float (&out)[kElements]) { device::widen<T>(raw, out); }
};
template <typename T>
struct RowVector<T, false> {
  using Raw = T;
  static constexpr int kElements = 1;
  __device__ static T load(bool on, const char* p, std::uint64_t) { return on ? *reinterpret_cast<const T*>(p) : T{}; }
  __device__ static void widen(const Raw& raw, float (&out)[1]) { out[0] = load_element(raw); }
};

/// a*b in 64 bits, one instruction: a loop-invariant b that the compiler widens beforehand costs four.
__device__ __forceinline__ std::int64_t wide_product(std::int32_t a, std::int32_t b) {
  std::int64_t product;
  asm("mul.wide.s32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
}

/// The lane's column window of every row of a bank.
struct RowColumns {
  const char* base;  ///< the bank, moved to the lane's first column
  std::int32_t row_bytes;
  bool inside;  ///< the window is not past the row
  __device__ const char* at(std::int32_t row) const { return base + wide_product(row, row_bytes); }
};
template <typename T>
__device__ __forceinline__ RowColumns columns_of(const void* bank, const RowPlan& plan, const RowPlace& at) {
  const char* base =
      static_cast<const char*>(bank) + static_cast<std::int64_t>(at.column) * static_cast<int>(sizeof(T));
  asm("" : "+l"(base));  // keeps the sum in registers: it is otherwise taken apart and added again for every row
  return {base, plan.head_dim * static_cast<int>(sizeof(T)), at.column < plan.head_dim};
}

// --- entries ---------------------------------------------------------------------------------------------------------

/// The entries of one operand of one step. Rows are below 2^31 and not negative, so the low word of an i64 is the row.
struct EntrySource {
  const std::int32_t* index;  ///< [P*C, entries] of `index_words` 32-bit words each
  const void* weight;         ///< [P*C, entries]
  std::int32_t entries, index_words;
  bool bf16_weight;
  std::int64_t ahead;  ///< distance to the same entry of the step that comes next, 0: none
};
struct Entry {
  std::int32_t row;  ///< -1: no entry, a term of zeros
  float weight;
};

/// The entries of `step`; `next_step` is the one to come (outside the pass: none).
inline EntrySource entries_of(AnyPtr index, AnyPtr weight, std::int32_t entries, const Dims& dims, int step,
                              int next_step) {
  const std::int32_t words = index.dtype == DType::i64 ? 2 : 1;
  const std::int64_t step_entries = std::int64_t{dims.streams} * dims.chunk * entries, first = step * step_entries;
  const std::int64_t ahead = next_step >= 0 && next_step < dims.steps ? (next_step - step) * step_entries : 0;
  return {static_cast<const std::int32_t*>(index.data) + first * words,
          static_cast<const char*>(weight.data) + first * static_cast<std::int64_t>(size_of(weight.dtype)),
          entries,
          words,
          weight.dtype == DType::bf16,
          ahead};
}

__device__ __forceinline__ Entry fetch_entry(const EntrySource& source, const RowPlace& at, int entry) {
  if (!at.valid || entry >= source.entries) return {-1, 0.0f};
  const int i = at.token * source.entries + entry;  // below 2^31: refuse_row_plan
  const float weight = source.bf16_weight ? load_element(static_cast<const bf16_t*>(source.weight)[i])
                                          : static_cast<const float*>(source.weight)[i];
  return {source.index[static_cast<std::int64_t>(i) * source.index_words], weight};
}

/// Brings the entry of the next step into L2: its launch begins with these loads, and nothing hides them there.
__device__ __forceinline__ void prefetch_entry(const EntrySource& source, const RowPlace& at, int entry) {
  if (source.ahead == 0 || at.slice != 0 || !at.valid || entry >= source.entries) return;
  const std::int64_t i = at.token * source.entries + entry + source.ahead;
  prefetch_l2(source.index + i * source.index_words);
  prefetch_l2(static_cast<const char*>(source.weight) + i * (source.bf16_weight ? 2 : 4));
}

/// Asks for the row group's slice of a bank row in L2, where what an earlier grid may still write is seen all the same.
__device__ __forceinline__ void prefetch_slice(const RowPlan& plan, const RowPlace& at, const RowColumns& columns,
                                               std::int32_t row) {
  const std::int32_t slice_bytes = 16 << plan.lane_bits;
  if (row >= 0)
    prefetch_l2(columns.at(row) - 16 * at.lane, min(slice_bytes, columns.row_bytes - at.slice * slice_bytes));
}

/// Zeros that lie in their registers from here on.
template <typename Raw>
__device__ __forceinline__ Raw cleared() {
  Raw raw{};
  if constexpr (sizeof(Raw) == 16) asm volatile("" : "+r"(raw.x), "+r"(raw.y), "+r"(raw.z), "+r"(raw.w));
  return raw;
}

// --- the fold --------------------------------------------------------------------------------------------------------

/// One row into acc, and past the visitor; `holder`: the lane of the row group that holds its weight in `mine`.
template <typename Row, typename Visitor>
__device__ __forceinline__ void fold_row(const RowPlan& plan, const Entry& mine, const typename Row::Raw& raw, int u,
                                         int holder, int base, Visitor& visitor, float (&acc)[Row::kElements]) {
  const float weight = __shfl_sync(kWholeWarp, mine.weight, holder, plan.lanes());
  float wide[Row::kElements];
  Row::widen(raw, wide);
#pragma unroll
  for (int c = 0; c < Row::kElements; ++c) acc[c] = fma_rn(weight, wide[c], acc[c]);
  visitor.row(u, holder, raw, wide, base);
}

/// The rows of entries i .. i + kDepth - 1 that the lanes of the row group hold in `mine`: all loads are on their way
/// before the first is used. kClearFirst: registers that may get no row are cleared before the first load, not between
/// the loads, where clearing what was the address of one may wait for the row of another (H200, the fused forward at
/// default saving fp8: 13 waits in 16 loads, 1,300 us, without them 1,132; the others had fewer such waits or none and
/// did not gain). 16 rows of f32 need their addresses first, too: the fused steps of f32_128 took 1,362 us without
/// saving, 1,214 with that, and 1,494 and 1,490 saving raw.
template <typename Row, int kDepth, bool kClearFirst>
__device__ __forceinline__ void load_rows(const RowPlan& plan, const Entry& mine, int i, const RowColumns& columns,
                                          std::uint64_t policy, typename Row::Raw (&raw)[kDepth]) {
  constexpr bool kAddressesFirst = kDepth == 16 && Row::kElements == 4;
  const char* from[kDepth];
  bool there[kDepth];
  const auto find = [&](int u) {
    const int row = __shfl_sync(kWholeWarp, mine.row, i + u, plan.lanes());
    from[u] = columns.at(row), there[u] = row >= 0 && columns.inside;
  };
  if constexpr (kAddressesFirst) {
#pragma unroll
    for (int u = 0; u < kDepth; ++u) {
      find(u);
      asm volatile("" : "+l"(from[u]));
    }
  }
  if constexpr (kClearFirst || kAddressesFirst) {
#pragma unroll
    for (int u = 0; u < kDepth; ++u) raw[u] = cleared<typename Row::Raw>();
  }
#pragma unroll
  for (int u = 0; u < kDepth; ++u) {
    if constexpr (!kAddressesFirst) find(u);
    if (!(kClearFirst || kAddressesFirst) || there[u]) raw[u] = Row::load(there[u], from[u], policy);
  }
}

/// Folds the entries of `part` in ascending order into acc (+0 before). Each lane of the row group holds one entry's
/// row and weight and hands them round, so the row loads wait for one index load only; kDepth rows (at most `lanes`)
/// are in flight before the first is used, and the next entries are fetched behind them. Every lane of the CTA must
/// call, with the same source. The visitor sees, with `base` the entry that lane 0 holds: `hold(entry)` once per
/// `lanes` entries, with the entry that this lane holds; its own loads cost no latency behind the first row loads, but
/// at 64 registers there is no room for that; `row(u, holder, raw, wide, base)` for every row in order: u-th of kDepth,
/// held by lane `holder`, so that the entry is base + holder*groups. `ready()` is called once, before the first row is
/// read: it waits for the rows' writers; indices and weights are older. Before, the first `early` rows are asked for in
/// L2, at most `lanes` and whole vectors only. `policy`: of the rows in L2 (policy_of).
template <typename Row, int kDepth, bool kClearFirst = false, typename Visitor, typename Ready = TakeTurn>
__device__ __forceinline__ void fold_part(const RowPlan& plan, const RowPlace& at, const EntrySource& source, int part,
                                          const RowColumns& columns, std::uint64_t policy, Visitor& visitor,
                                          float (&acc)[Row::kElements], Ready&& ready = {}, std::int32_t early = 0) {
  const int count = plan.part_entries(source.entries);
  Entry next = fetch_entry(source, at, part + (at.lane << plan.group_bits));
  prefetch_entry(source, at, part + (at.lane << plan.group_bits));
  if (Row::kElements > 1 && at.lane < early) prefetch_slice(plan, at, columns, next.row);
  ready();
  for (int base = 0; base < count; base += plan.lanes()) {
    const Entry mine = next;
    const int entry = part + (base << plan.group_bits);
    next = fetch_entry(source, at, part + ((base + plan.lanes() + at.lane) << plan.group_bits));
    if (kDepth <= 8) visitor.hold(entry + (at.lane << plan.group_bits));
    const int stop = min(plan.lanes(), count - base);
    for (int i = 0; i < stop; i += kDepth) {
      typename Row::Raw raw[kDepth];
      load_rows<Row, kDepth, kClearFirst>(plan, mine, i, columns, policy, raw);
      if (kDepth > 8 && i == 0) visitor.hold(entry + (at.lane << plan.group_bits));
#pragma unroll
      for (int u = 0; u < kDepth; ++u) fold_row<Row>(plan, mine, raw[u], u, i + u, entry, visitor, acc);
    }
  }
}

// --- parts to totals -------------------------------------------------------------------------------------------------

/// kQuad floats that move together: float4 where a lane holds whole vectors.
template <int kElements>
inline constexpr int kQuad = kElements >= 4 ? 4 : 1;

template <int kElements>
__device__ __forceinline__ void put_columns(float* p, int quad, const float (&x)[kElements]) {
  if constexpr (kElements == 1)
    *p = x[0];
  else
    *reinterpret_cast<float4*>(p) = {x[4 * quad], x[4 * quad + 1], x[4 * quad + 2], x[4 * quad + 3]};
}

/// Leaves a finished part where total_parts finds it; a single part goes straight to its row of `out`, [P*C, D].
template <int kElements>
__device__ __forceinline__ void finish_part(const RowPlan& plan, const RowPlace& at, int part, float* shared,
                                            float* out, float (&acc)[kElements]) {
  constexpr int kQuads = kElements / kQuad<kElements>;
  const std::int64_t row = static_cast<std::int64_t>(at.token) * plan.head_dim;
  const bool store = at.owned && at.column < plan.head_dim;
#pragma unroll
  for (int c = 0; c < kElements; ++c) acc[c] = acc[c] + 0.0f;  // a -0 of underflow becomes the +0 of any padding
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    if (plan.group_bits > 0)
      put_columns(shared + (at.unit_in_cta * plan.groups() + part) * plan.slice_columns() +
                      swizzled(at.lane * kQuads + q) * kQuad<kElements>,
                  q, acc);
    else if (store)
      put_columns(out + row + at.column + q * kQuad<kElements>, q, acc);
  }
}

/// total = ((+0 + part_0) + part_1) + .. for every column of every unit of the CTA. All threads of the CTA call.
template <int kElements>
__device__ __forceinline__ void total_parts(const RowPlan& plan, const RowPlace& at, const float* shared, float* out) {
  constexpr int kWidth = kQuad<kElements>;
  if (plan.group_bits == 0) return;
  __syncthreads();
  const int slice_columns = plan.slice_columns();
  const float* parts = shared + at.unit_in_cta * plan.groups() * slice_columns;
  float* row = out + static_cast<std::int64_t>(at.token) * plan.head_dim + at.slice * slice_columns;
  for (int q = at.thread_in_unit; q * kWidth < slice_columns; q += plan.unit_threads()) {
    float total[kWidth] = {};
#pragma unroll 4
    for (int g = 0; g < plan.groups(); ++g) {
      const float* p = parts + g * slice_columns + swizzled(q) * kWidth;
      if constexpr (kWidth == 4) {
        const float4 part = *reinterpret_cast<const float4*>(p);
        total[0] += part.x, total[1] += part.y, total[2] += part.z, total[3] += part.w;
      } else {
        total[0] += *p;
      }
    }
    if (at.owned && at.slice * slice_columns + q * kWidth < plan.head_dim) put_columns(row + q * kWidth, 0, total);
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

/// Rows in flight a lane: 16, in 128 registers, so that 512 threads fill a multiprocessor; 8 in 64 registers where a
/// part has no more, or its row group holds no more entries. With 8 rows and 1024 threads the next grid's CTAs begin
/// beside this one's, as many as find room here and there, and then share the multiprocessors unevenly: H200, gather
/// with early rows at f32_128 747 us, 562 with 16 rows.
inline int rows_in_flight(const RowPlan& plan, std::int32_t entries, const LaunchContext& context) {
  if (plan.vec == 1 || plan.lanes() < 16) return 8;
  if (context.geometry.depth > 0) return context.geometry.depth < 16 ? 8 : 16;
  return plan.part_entries(entries) <= 8 ? 8 : 16;
}

/// Rows of a part that are asked for in L2 before the wait for the previous grid: DRAM works while that grid ends. Of
/// 4, 8, 12 and 16 rows, 8 were the best or within 2 % in all shapes of configs/h200_perf.json.
inline constexpr std::int32_t kEarlyRows = 8;

/// CTAs that ask early: those that may begin while the previous grid still runs, `resident` a multiprocessor, which is
/// kEarlyThreads without a limit of the kernel's own. Later ones would only send their requests twice (flagship gather
/// took 3,212 us without early rows, 3,380 with those of all CTAs, 3,203 with those of the first).
inline constexpr std::int32_t kEarlyThreads = 1024;
inline std::int32_t early_ctas(const LaunchContext& context, std::int32_t resident) {
  return context.dependent_launch ? context.device.multiprocessors * resident : 0;
}
__device__ __forceinline__ std::int32_t early_rows(std::int32_t early_ctas) {
  return static_cast<std::int32_t>(blockIdx.x) < early_ctas ? kEarlyRows : 0;
}

inline LaunchShape shape_of(const RowPlan& plan, int operands) {
  return {dim3(static_cast<unsigned>(plan.ctas() * operands)), plan.threads, plan.shared_bytes()};
}

inline std::string describe(const RowPlan& plan, int operands, int depth) {
  return describe(shape_of(plan, operands)) + ", " + std::to_string(plan.groups()) + " parts, " +
         std::to_string(plan.lanes()) + " lanes of " + std::to_string(plan.vec) + " elements, " +
         std::to_string(plan.slices) + " column slices, " + std::to_string(depth) + " rows in flight";
}

}  // namespace sdm::device
