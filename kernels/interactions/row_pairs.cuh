#pragma once
// A row of A and QK by a warp. Device code only.
#include "kernels/interactions/pairs.cuh"

namespace sdm::interactions {

inline constexpr int kBlocks = 2;   // of 32 entries of a token, for each operand, at a time
inline constexpr int kListed = 64;  // pairs of these blocks that are added together

/// Entries base .. base + 32*kBlocks - 1 of a token, 32 a block; all loads of a kind are in flight together.
struct RowBlocks {
  EntryMembers writes[kBlocks], reads[kBlocks];
};

__device__ __forceinline__ RowBlocks load_blocks(const Members& members, const PairRow& at, int token, int base) {
  const Params& p = members.p;
  RowBlocks row;
  int write_position[kBlocks], read_position[kBlocks];
  const int first = base + device::lane_id();
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    const int n = first + 32 * b;
    write_position[b] = n < p.dims.writes ? p.writes.position[at.write_at + n] : -1;
    read_position[b] = n < p.dims.reads ? p.reads.position[at.read_at + n] : -1;
  }
  const std::int32_t* match = p.reads.match + (at.read_at - std::int64_t{token} * p.dims.reads);
  const auto first_of = [&](int position) {
    if (members.match == nullptr) return match[position];
    const int first = members.match[position];
    return first == kNoMatch ? -1 : first;
  };
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    row.reads[b].first = read_position[b] >= 0 ? first_of(read_position[b]) : -1;
    if (write_position[b] < 0) continue;
    row.writes[b].count = distance_of(members.payload[write_position[b]]);
    row.writes[b].first = write_position[b] - row.writes[b].count;
  }
#pragma unroll
  for (int b = 0; b < kBlocks; ++b)
    if (row.reads[b].first >= 0) row.reads[b].count = members_until(members, row.reads[b].first, token);
  return row;
}

/// Few pairs: those of all blocks are listed and added together, 32 at a time. `longer`: some entry has several.
__device__ __forceinline__ void add_listed(const Members& members, const PairRow& at, const RowBlocks& row, int base,
                                           bool longer, int total, Pair* list) {
  const unsigned below = (1u << device::lane_id()) - 1u;
  int listed = 0;
  const auto append = [&](const EntryMembers& e, int entry) {
    if (!longer) {
      const unsigned todo = __ballot_sync(device::kWholeWarp, e.count > 0);
      if (e.count > 0) list[listed + __popc(todo & below)] = {entry, e.first};
      listed += __popc(todo);
    } else {
      const int end = device::warp_inclusive_sum(e.count);
      for (int m = 0; m < e.count; ++m) list[listed + end - e.count + m] = {entry, e.first + m};
      listed += __shfl_sync(device::kWholeWarp, end, 31);
    }
  };
  const int first = base + device::lane_id();
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) append(row.writes[b], first + 32 * b);
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) append(row.reads[b], kOfReads + first + 32 * b);
  __syncwarp();
  for (int i = device::lane_id(); i - device::lane_id() < total; i += 32)
    add_pairs_of_lanes(members, at, i < total, list[i < total ? i : 0]);
}

/// Row `token` of A (own entries against the earlier members of their groups) and of QK (own reads against the members
/// of their slot's write group up to the own token). `list`: the warp's, [kListed].
__device__ __forceinline__ void make_row(const Members& members, const PairRow& at, int token, Pair* list) {
  const Dims& dims = members.p.dims;
  for (int base = 0; base < max(dims.writes, dims.reads); base += 32 * kBlocks) {
    const RowBlocks row = load_blocks(members, at, token, base);
    int pairs = 0;
    bool longer = false;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      pairs += row.writes[b].count + row.reads[b].count;
      longer |= row.writes[b].count > 1 || row.reads[b].count > 1;
    }
    const int total = __reduce_add_sync(device::kWholeWarp, pairs);
    if (total == 0) continue;
    if (total <= kListed) {
      add_listed(members, at, row, base, __any_sync(device::kWholeWarp, longer) != 0, total, list);
      continue;
    }
    const int first = base + device::lane_id();
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) add_pairs(members, at, row.writes[b], first + 32 * b);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) add_pairs(members, at, row.reads[b], kOfReads + first + 32 * b);
  }
}

/// Row `token` of A and QK to its place, up to the diagonal (four cells at a time, zeros to the end of its 64 bytes:
/// 190 us at flagship on an H200, to the end of 32 bytes 199), and zeros for the next row.
__device__ __forceinline__ void store_row(const Params& p, std::int64_t out, int token, float* row) {
  const int c = p.dims.chunk;
  if (c % 4 == 0) {
    for (int j = 4 * device::lane_id(); j < min((token | 15) + 1, c); j += 4 * 32) {
      auto *a = reinterpret_cast<float4*>(row + j), *qk = reinterpret_cast<float4*>(row + c + j);
      *reinterpret_cast<float4*>(p.a + out + j) = *a;
      *reinterpret_cast<float4*>(p.qk + out + j) = *qk;
      *a = *qk = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
  } else {
    for (int j = device::lane_id(); j <= token; j += 32) {
      p.a[out + j] = row[j];
      p.qk[out + j] = row[c + j];
      row[j] = row[c + j] = 0.0f;
    }
  }
}

}  // namespace sdm::interactions
