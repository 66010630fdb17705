// write, variant `by_token`: fp8 and int4 snapshots of rows of up to 2 KiB on any GPU. A warp sees whole rows, as their
// maxima want; and so that this takes few token rows, a CTA owns tokens of a chunk and writes the groups whose first
// member is an entry of theirs. Every warp gets the same number of entries.
#include "kernels/common/async_copy.cuh"
#include "kernels/write/encode.cuh"
#include "kernels/write/shape.h"
#include "kernels/write/token_items.cuh"

namespace sdm::write {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

/// 32 lanes of kVectors vectors hold a row; all but the last vector are whole.
template <typename T, int kVectors_>
struct WholeRow : RowShape<T, 32, true> {
  static constexpr int kVectors = kVectors_;
};

template <typename S>
struct Lane {
  typename S::T* bank;   ///< at the lane's first column of row 0
  std::uint8_t* saved;   ///< likewise, of the chunk's group 0
  float* scales;         ///< of group 0
  const float* tokens;   ///< shared memory, at the lane's first column of the CTA's first token
  float* member;         ///< shared memory, the warp's: a token row, at the lane's first column
  const float* delta_v;  ///< at the lane's first column of the chunk's first token
  std::uint32_t row_bytes, saved_row_bytes, token_row_bytes;
  bool last;  ///< the row has columns of the lane in its last vector

  __device__ __forceinline__ bool has(int k) const { return k < S::kVectors - 1 || last; }
  __device__ __forceinline__ typename S::T* row(const Item& item) const {
    return row_at(bank, item.record.slot, row_bytes);
  }
};

template <typename S>
__device__ __forceinline__ void request(const Lane<S>& v, const typename S::T* row, int k, bool some, uint4& base) {
  base = some && v.has(k) ? device::load_row(row + k * S::kColumns) : uint4{0, 0, 0, 0};
}

/// Asks the L2 for a row.
template <typename S>
__device__ __forceinline__ void ask(const Lane<S>& v, const Item& item) {
  const std::uint32_t lane = threadIdx.x & 31, offset = 64 * lane;  // the L2 fetches 64 bytes at least
  if (offset < v.row_bytes)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(reinterpret_cast<const char*>(v.row(item)) - 16 * lane + offset)
                 : "memory");
}

/// Brings the lane's columns of the token row of a group's second member.
template <typename S>
__device__ __forceinline__ void fetch_second(const Lane<S>& v, const Item& item) {
  if ((item.record.payload & kLast) != 0) return;
  const auto* from = row_at(v.delta_v, token_of(item.second.payload), v.token_row_bytes);
#pragma unroll
  for (int k = 0; k < S::kVectors; ++k)
#pragma unroll
    for (int q = 0; q < S::kElements; q += 4)
      if (v.has(k)) device::copy_async<16>(v.member + k * S::kColumns + q, from + k * S::kColumns + q);
  device::commit_copies();
}

/// sum = fma(scale, token row, sum), the row at the lane's first column.
template <typename S>
__device__ __forceinline__ void add_token(const Lane<S>& v, const float* row, float scale,
                                          float (&sum)[S::kVectors][S::kElements]) {
#pragma unroll
  for (int k = 0; k < S::kVectors; ++k)
#pragma unroll
    for (int q = 0; q < S::kElements; q += 4) {
      float4 t{0.0f, 0.0f, 0.0f, 0.0f};
      if (v.has(k)) t = *reinterpret_cast<const float4*>(row + k * S::kColumns + q);
      float* s = sum[k] + q;
      s[0] = fma_rn(scale, t.x, s[0]), s[1] = fma_rn(scale, t.y, s[1]);
      s[2] = fma_rn(scale, t.z, s[2]), s[3] = fma_rn(scale, t.w, s[3]);
    }
}

/// The sum of a group's members; returns the decay of the last. (Token rows are found by index, not by address: the
/// compiler then knows that they lie in shared memory.)
template <typename S>
__device__ __forceinline__ float fold(const Lane<S>& v, const Record* records, const Item& item, int head_dim,
                                      float (&sum)[S::kVectors][S::kElements]) {
  const Record record = item.record;
  add_token<S>(v, v.tokens + item.token * head_dim, record.scale, sum);
  if ((record.payload & kLast) != 0) [[likely]]
    return record.c;
  device::wait_copies_but<0>();
  Record member = item.second;
  add_token<S>(v, v.member, member.scale, sum);
#pragma unroll 1
  for (int i = item.position + 2; (member.payload & kLast) == 0; ++i) {
    const uint4 bits = __ldg(reinterpret_cast<const uint4*>(records + i));
    member = {bits.x, static_cast<std::int32_t>(bits.y), __uint_as_float(bits.z), __uint_as_float(bits.w)};
    add_token<S>(v, row_at(v.delta_v, token_of(member.payload), v.token_row_bytes), member.scale, sum);
  }
  return member.c;
}

template <typename S, Save kSave>
__device__ __forceinline__ RowCoder coder_of(const uint4 (&base)[S::kVectors]) {
  std::uint32_t amax = __reduce_max_sync(~0u, lane_amax<typename S::T, true>(base));
  const bool nan = amax > kInfinity;
  if (nan) [[unlikely]]
    amax = __reduce_max_sync(~0u, lane_amax<typename S::T, false>(base));  // again, without the NaNs
  return make_row_coder<kSave>(amax, !nan);
}

/// Snapshot and new row of a group; the registers of `base` take the row `next`, if any, vector by vector.
template <typename S, Save kSave>
__device__ __forceinline__ void write_row(const Lane<S>& v, const Item& item, const RowCoder& coder, float decay,
                                          float (&sum)[S::kVectors][S::kElements], const typename S::T* next, bool some,
                                          uint4 (&base)[S::kVectors]) {
  typename S::T* row = v.row(item);
  std::uint8_t* saved = row_at(v.saved, item.ordinal, v.saved_row_bytes);
#pragma unroll
  for (int k = 0; k < S::kVectors; ++k) {
    const int column = k * S::kColumns, width = v.has(k) ? S::kElements : 0;
    float x[S::kElements];
    device::widen<typename S::T>(base[k], x);
    save_columns<S, kSave>(saved + saved_bytes<S, kSave>(column), width, base[k], x, coder);
#pragma unroll
    for (int c = 0; c < S::kElements; ++c) sum[k][c] = fma_rn(x[c], decay, sum[k][c]);
    store_columns<S, true>(row + column, width, device::narrow<typename S::T>(sum[k]));
    request(v, next, k, some, base[k]);
  }
}

template <typename S, Save kSave>
__device__ __forceinline__ Lane<S> lane_of(const Params& p, std::int64_t chunk, const float* tokens, float* members) {
  const Dims& d = p.dims;
  const int lane = static_cast<int>(threadIdx.x & 31), warp = static_cast<int>(threadIdx.x) / 32;
  const int column = lane * S::kElements, n = d.write_positions(), saved_row = saved_bytes<S, kSave>(d.head_dim);
  return {static_cast<typename S::T*>(p.bank.data) + column,
          static_cast<std::uint8_t*>(p.snapshot.rows) + chunk * n * saved_row + saved_bytes<S, kSave>(column),
          p.snapshot.scale + chunk * n,
          tokens + column,
          members + warp * d.head_dim + column,
          p.delta_v + chunk * d.chunk * d.head_dim + column,
          static_cast<std::uint32_t>(d.head_dim) * static_cast<std::uint32_t>(sizeof(typename S::T)),
          static_cast<std::uint32_t>(saved_row),
          static_cast<std::uint32_t>(d.head_dim) * 4u,
          column + (S::kVectors - 1) * S::kColumns < d.head_dim};
}

/// grid.x = streams, grid.y = shares of a chunk's tokens. The first rows are older than the previous grid (write.h).
template <typename S, Save kSave>
__global__ void __launch_bounds__(32 * kMaxWarps, 1)
    by_token_kernel(const __grid_constant__ Params p, const __grid_constant__ Deal deal) {
  extern __shared__ float4 shared[];
  const Dims& d = p.dims;
  auto* tokens = reinterpret_cast<float*>(shared);
  auto* members = tokens + deal.tokens * d.head_dim;
  const std::int64_t chunk = std::int64_t{p.step} * d.streams + blockIdx.x;
  const int n = d.write_positions(), cta = static_cast<int>(blockIdx.y);
  const int warp = static_cast<int>(threadIdx.x) / 32, warps = static_cast<int>(blockDim.x) / 32;
  auto* barrier = reinterpret_cast<std::uint64_t*>(members + warps * d.head_dim);
  auto* items = reinterpret_cast<Item*>(barrier + 2) + warp * 32;
  device::RowStage stage(barrier, deal.engine);
  const Lane<S> v = lane_of<S, kSave>(p, chunk, tokens, members);
  const int own_tokens = (d.valid_tokens(p.step) - cta + deal.ctas - 1) / deal.ctas;
  const Entries entries{.records = p.record + chunk * n,
                        .payload = p.payload + chunk * n,
                        .position = p.position + chunk * n,
                        .windows = p.window + chunk * window_count(n),
                        .count = own_tokens * d.writes,
                        .writes = d.writes,
                        .valid = d.valid_tokens(p.step) * d.writes,
                        .in_fours = n % 4 == 0};
  bool staged = false;
  const auto start = [&] {
    __syncthreads();  // the stage's barrier
    device::wait_for_previous_grid();
    device::allow_next_grid();
    stage.template start<true>({tokens, p.delta_v + (chunk * d.chunk + cta) * d.head_dim, own_tokens, d.head_dim,
                                deal.ctas * d.head_dim, d.head_dim});
  };
  int entry = warp + (static_cast<int>(threadIdx.x) & 31) * warps;
  int position = entry_position(entries, deal, entry);
  int first = warp;
#pragma unroll 1
  do {  // warps without entries have a round too, in which all meet at start's barrier
    ItemRest rest;
    unsigned left = load_items(entries, entry, position, items, rest);
    const Item* item = items + device::lowest_bit(left, 0);
    uint4 base[S::kVectors];
#pragma unroll
    for (int k = 0; k < S::kVectors; ++k) request(v, v.row(*item), k, left != 0, base[k]);
    const auto ask_second = [&] {
      const unsigned later = left & (left - 1);
      if (deal.ask && later != 0) ask(v, items[device::lowest_bit(later, 0)]);
    };
    ask_second();
    entry += 32 * warps;
    position = entry_position(entries, deal, entry);
    complete_items(rest, items);
    if (first == warp) start();
    if (left != 0) fetch_second(v, *item);
    while (left != 0) {
      left &= left - 1;
      const Item* next = items + device::lowest_bit(left, 0);
      ask_second();
      if (!staged) stage.template wait<true>(), staged = true;
      float sum[S::kVectors][S::kElements] = {};  // made while the row is on its way
      const float decay = fold<S>(v, entries.records, *item, d.head_dim, sum);
      if (left != 0) fetch_second(v, *next);
      const RowCoder coder = coder_of<S, kSave>(base);
      if ((threadIdx.x & 31) == 0) v.scales[item->ordinal] = coder.scale;
      write_row<S, kSave>(v, *item, coder, decay, sum, v.row(*next), left != 0, base);
      item = next;
    }
    first += 32 * warps;
  } while (first < entries.count);
  if (!staged) stage.template wait<true>();
}

// --- launchers -------------------------------------------------------------------------------------------------------

std::size_t shared_bytes(const Params& p, int tokens) {
  return sizeof(float) * static_cast<std::size_t>(tokens + kMaxWarps) * static_cast<std::size_t>(p.dims.head_dim) + 16 +
         sizeof(Item) * kMaxWarps * 32;
}

Deal deal_of(const Params& p, const Device& device) {
  const int places = std::max(1, device.multiprocessors / p.dims.step_streams());
  int tokens = device::ceil_div(p.dims.chunk, places);
  while (tokens > 1 && shared_bytes(p, tokens) > device.shared_memory_per_block) --tokens;
  return {device::ceil_div(p.dims.chunk, tokens), tokens, tokens * p.dims.writes <= 32 * kMaxWarps,
          device.has_copy_engine()};
}

int vectors_of(const Params& p) {
  return device::ceil_div(p.dims.head_dim * static_cast<int>(size_of(p.bank.dtype)), 512);
}

std::string refuse(const Params& p, const Device& device) {
  if (std::string reason = refuse_common(p); !reason.empty()) return reason;
  if (!quantizes(p)) return "by_token is for fp8 and int4 snapshots; for anything else use direct";
  if (!rows_aligned(p)) return "by_token takes rows of a multiple of 16 bytes; all_slices takes any";
  if (vectors_of(p) > 4) return "by_token holds a row in a warp's registers, at most 2048 bytes; all_slices takes any";
  if (shared_bytes(p, 1) > device.shared_memory_per_block)
    return "by_token keeps a token row a warp in shared memory (" + std::to_string(shared_bytes(p, 1)) +
           " bytes); this GPU offers " + std::to_string(device.shared_memory_per_block);
  return {};
}

device::LaunchShape shape_of(const Params& p, const LaunchContext& context) {
  const Deal deal = deal_of(p, context.device);
  const int asked = context.geometry.warps;
  return {.grid = dim3(static_cast<unsigned>(p.dims.step_streams()), static_cast<unsigned>(deal.ctas)),
          .threads = 32 * (asked > 0 ? std::min(asked, kMaxWarps) : kMaxWarps),
          .shared_bytes = shared_bytes(p, deal.tokens)};
}

void launch(const Params& p, const LaunchContext& context) {
  dispatch_real(p.bank.dtype, [&]<typename T>() {
    dispatch_value<1, 2, 3, 4>(vectors_of(p), [&]<int kVectors>() {
      dispatch_value<Save::fp8, Save::int4>(save_of(p.snapshot), [&]<Save kSave>() {
        device::launch(by_token_kernel<WholeRow<T, kVectors>, kSave>, shape_of(p, context), context, p,
                       deal_of(p, context.device));
      });
    });
  });
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  return device::describe(shape_of(p, context)) + "; " + std::to_string(deal_of(p, context.device).tokens) +
         " tokens a CTA, a warp walks whole rows";
}

}  // namespace

const Variant<Params> by_token{
    .name = "by_token",
    .why = "fp8 and int4 rows of up to 2 KiB: a warp sees whole rows, a CTA needs few token rows",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::write
