// combine, variant `teams`: two teams make base_dv and base_out of 128 columns of a chunk, a third copies and makes B
// and QB. S, QK and the values come by bulk copies, once, while the chunk before is folded.
#include <algorithm>

#include "kernels/combine/combine.h"
#include "kernels/combine/team_folds.cuh"
#include "kernels/common/triangular_grid.cuh"

namespace sdm::combine {
namespace {

// --- kernel ----------------------------------------------------------------------------------------------------------

constexpr int kValueTeams = 2, kThreads = (kValueTeams + 1) * Team::kThreads;
constexpr int kColumns = kValueTeams * Team::kColumns;  ///< of an item
constexpr int kResident = 2;                            ///< CTAs of a multiprocessor

/// What the third team copies and all teams read: `full` when it is there, `free` when all threads are done with it
/// (one of each warp would do, but not for racecheck).
struct Input {
  std::uint64_t full, free;
};
struct Memory {
  float rows[2][Team::kRows * kColumns];  ///< values of this item and the next; base_dv takes their place
  Packed s, qk, b;
  float beta[2][Team::kRows];
  Input rows_of[2], s_of, qk_of;
};

__device__ __forceinline__ void wait_for(std::uint64_t& barrier, int round) {
  device::wait(device::shared_address(&barrier), round & 1);
}
__device__ __forceinline__ void release(Input& input) { device::arrive(device::shared_address(&input.free)); }

/// A CTA's items: columns tile * 128 .. of a chunk. The n-th of a CTA.
struct Item {
  std::int64_t chunk;
  int tile, n;
  __device__ __forceinline__ Item(int item, int tiles, int round) : chunk(item / tiles), tile(item % tiles), n(round) {}
  __device__ __forceinline__ int buffer() const { return n & 1; }
};

// A row a thread of the copying team.
__device__ __forceinline__ void fetch_rows(const Params& p, const Item& item, Memory& memory) {
  const int c = p.dims.chunk, d = p.dims.head_dim, d0 = item.tile * kColumns, row = Team::thread();
  const int width = row < c ? min(kColumns, d - d0) : 0, betas = row == 0 ? c : 0;
  const std::uint32_t full = device::shared_address(&memory.rows_of[item.buffer()].full);
  device::arrive_expecting(full, (width + betas) * 4);
  if (width > 0)
    device::load_bytes(device::shared_address(memory.rows[item.buffer()] + row * kColumns),
                       p.v + (item.chunk * c + row) * d + d0, width * 4, full);
  if (betas > 0)
    device::load_bytes(device::shared_address(memory.beta[item.buffer()]), p.beta + item.chunk * c, betas * 4, full);
}
__device__ __forceinline__ void fetch(const float* matrix, int c, Packed& packed, Input& input) {
  const int row = Team::thread(), width = row < c ? min(row / Packed::kPiece * Packed::kPiece + Packed::kPiece, c) : 0;
  const std::uint32_t full = device::shared_address(&input.full);
  device::arrive_expecting(full, width * 4);
  if (width > 0)
    device::load_bytes(device::shared_address(packed.data + Packed::at(row)), matrix + row * c, width * 4, full);
}

/// base_dv and base_out of a team's columns.
__device__ __forceinline__ void make_values(const Params& p, const Item& item, Memory& memory) {
  const int c = p.dims.chunk, d = p.dims.head_dim, d0 = item.tile * kColumns + Team::index() * Team::kColumns;
  float* rows = memory.rows[item.buffer()] + Team::index() * Team::kColumns;
  wait_for(memory.rows_of[item.buffer()].full, item.n / 2);
#pragma unroll 4
  for (int v = Team::thread(); v < Team::kRows * Team::kColumns / 4; v += Team::kThreads) {
    const float f = memory.beta[item.buffer()][v / 16];
    auto* at = reinterpret_cast<float4*>(rows + v / 16 * kColumns + v % 16 * 4);
    *at = make_float4(f * at->x, f * at->y, f * at->z, f * at->w);
  }
  Team::barrier();
#pragma unroll 1
  for (int product = 0; product < 2; ++product) {
    wait_for(product == 0 ? memory.s_of.full : memory.qk_of.full, item.n);
    TeamProduct<kColumns, false> work;
    work.run(product == 0 ? memory.s : memory.qk, rows, c);
    Team::barrier();  // everyone is done with the rows
    if (product == 0) release(memory.s_of);
    float* out = (product == 0 ? p.base_dv : p.base_out) + item.chunk * c * d + d0;
    work.for_outputs(c, d - d0, [&](int row, int column, const float4& v) {
      if (product == 0) *reinterpret_cast<float4*>(rows + row * kColumns + column) = v;
      *reinterpret_cast<float4*>(out + static_cast<std::int64_t>(row) * d + column) = v;
    });
    Team::barrier();
  }
  device::fence_for_engines();  // values were written here, and will be by the engine
  release(memory.qk_of);
  release(memory.rows_of[item.buffer()]);
}

/// B = -S diag(beta), and what QB wants of it in memory.b.
__device__ __forceinline__ void make_b(const Params& p, const Item& item, Memory& memory) {
  const int c = p.dims.chunk, across = c / 4;
  for (int v = Team::thread(); v < c * across; v += Team::kThreads) {
    const int row = v / across, column = v % across * 4, last = row - column;
    if (device::above_diagonal(row, column)) continue;
    float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (last >= 0) {
      const float4 s = *reinterpret_cast<const float4*>(memory.s.data + Packed::at(row) + column);
      const float4 f = *reinterpret_cast<const float4*>(memory.beta[item.buffer()] + column);
      x = make_float4((-s.x) * f.x, last >= 1 ? (-s.y) * f.y : 0.0f, last >= 2 ? (-s.z) * f.z : 0.0f,
                      last >= 3 ? (-s.w) * f.w : 0.0f);
      *reinterpret_cast<float4*>(memory.b.data + Packed::at(row) + column) = x;
    }
    *reinterpret_cast<float4*>(p.b + (item.chunk * c + row) * c + column) = x;
  }
}
__device__ __forceinline__ void make_qb(const Params& p, const Item& item, Memory& memory) {
  const int c = p.dims.chunk;
  TeamProduct<Packed::kStride, true> work;
  work.run(memory.qk, memory.b.data, c);
  work.for_outputs(c, c, [&](int row, int column, const float4& v) {
    const int last = row - column;  // sums past the diagonal have not begun
    if (device::above_diagonal(row, column)) return;
    *reinterpret_cast<float4*>(p.qb + (item.chunk * c + row) * c + column) =
        make_float4(last >= 0 ? v.x : 0.0f, last >= 1 ? v.y : 0.0f, last >= 2 ? v.z : 0.0f, last >= 3 ? v.w : 0.0f);
  });
}

/// The third team's part. Of a chunk's items one makes the matrices, in turn another, so that no CTA makes more of
/// them.
__device__ __forceinline__ void make_matrices(const Params& p, const Item& item, int tiles, Memory& memory) {
  const bool mine = item.tile == item.chunk % tiles;
  wait_for(memory.rows_of[item.buffer()].full, item.n / 2);
  wait_for(memory.s_of.full, item.n);
  if (mine) make_b(p, item, memory);
  release(memory.s_of);
  release(memory.rows_of[item.buffer()]);
  wait_for(memory.qk_of.full, item.n);
  if (mine) {
    Team::barrier();
    make_qb(p, item, memory);
    Team::barrier();  // everyone is done with memory.b
  }
  release(memory.qk_of);
}

__device__ __forceinline__ void start_barriers(Memory& memory) {
  if (threadIdx.x == 0) {
    for (Input* input : {&memory.rows_of[0], &memory.rows_of[1], &memory.s_of, &memory.qk_of}) {
      device::init_barrier(device::shared_address(&input->full), Team::kThreads);
      device::init_barrier(device::shared_address(&input->free), kThreads);
    }
    device::fence_barrier_init();
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kThreads, kResident)
    teams_kernel(const __grid_constant__ Params p, int tiles, int items) {
  auto& memory = *reinterpret_cast<Memory*>(device::dynamic_shared());
  const int first = static_cast<int>(blockIdx.x), step = static_cast<int>(gridDim.x),
            matrix = p.dims.chunk * p.dims.chunk;
  start_barriers(memory);
  device::wait_for_previous_grid();
  if (Team::index() < kValueTeams) {
#pragma unroll 1
    for (int at = first, n = 0; at < items; at += step, ++n) make_values(p, Item(at, tiles, n), memory);
    return;
  }
  const auto fetch_s = [&](const Item& item) { fetch(p.s + item.chunk * matrix, p.dims.chunk, memory.s, memory.s_of); };
  const auto fetch_qk = [&](const Item& item) {
    fetch(p.qk + item.chunk * matrix, p.dims.chunk, memory.qk, memory.qk_of);
  };
  const Item begin(first, tiles, 0);
  fetch_rows(p, begin, memory), fetch_s(begin), fetch_qk(begin);
  if (first + step < items) fetch_rows(p, Item(first + step, tiles, 1), memory);
#pragma unroll 1
  for (int at = first, n = 0; at < items; at += step, ++n) {
    const Item item(at, tiles, n), next(at + step, tiles, n + 1);
    make_matrices(p, item, tiles, memory);
    if (at + step >= items) return;
    wait_for(memory.s_of.free, n);
    fetch_s(next);
    wait_for(memory.qk_of.free, n);
    fetch_qk(next);
    if (at + 2 * step >= items) continue;
    wait_for(memory.rows_of[item.buffer()].free, n / 2);
    fetch_rows(p, Item(at + 2 * step, tiles, n + 2), memory);
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

int tiles_of(const Params& p) { return device::ceil_div(p.dims.head_dim, kColumns); }
std::int64_t items_of(const Params& p) { return p.dims.chunks() * tiles_of(p); }
std::size_t shared_of_all(const Device&) {
  constexpr std::size_t kReserved = 1024;  // of the driver, for each CTA
  return kResident * (sizeof(Memory) + kReserved);
}

std::string refuse(const Params& p, const Device& device) {
  const int c = p.dims.chunk, d = p.dims.head_dim;
  if (device.compute_capability != 90 || device.force_portable)
    return "teams is built for compute capability 9.0 (bulk copies into shared memory); simt runs on any GPU";
  if (c > Team::kRows)
    return "teams takes chunks of at most " + std::to_string(Team::kRows) + " tokens, not " + std::to_string(c) +
           " (simt takes any number)";
  if (!device::vectors_fit(c, d)) return "teams takes chunks and head_dims that are multiples of 4; others need simt";
  if (sizeof(Memory) > device.shared_memory_per_block)
    return "teams needs " + std::to_string(sizeof(Memory)) + " bytes of shared memory; this device gives " +
           std::to_string(device.shared_memory_per_block) + " a CTA (simt needs less)";
  return device::refuse_tiles(p.dims.chunks(), 1, c, std::max(c, d));
}
/// Every CTA that the GPU holds has an item, and no team is without columns. H200, in us: default 38 in place of 47,
/// flag64 184 (237), wide960 97 (117).
bool suits(const Params& p, const Device& device) {
  return p.dims.chunk > Team::kRows / 2 && p.dims.head_dim > Team::kColumns &&
         items_of(p) >= kResident * device.multiprocessors &&
         shared_of_all(device) <= device.shared_memory_per_multiprocessor;
}

device::LaunchShape shape_of(const Params& p, const Device& device) {
  const std::int64_t ctas = std::min<std::int64_t>(items_of(p), kResident * device.multiprocessors);
  return {dim3(static_cast<unsigned>(ctas)), kThreads, sizeof(Memory)};
}
void launch(const Params& p, const LaunchContext& context) {
  device::launch(teams_kernel, shape_of(p, context.device), context, p, tiles_of(p), static_cast<int>(items_of(p)));
}
std::string describe_launch(const Params& p, const LaunchContext& context) {
  return device::describe(shape_of(p, context.device)) + ", " + std::to_string(items_of(p)) + " times " +
         std::to_string(kColumns) + " columns of a chunk";
}

}  // namespace

const Variant<Params> teams = {
    .name = "teams",
    .why = "inputs by bulk copies while the chunk before is folded, chunks of up to 64 tokens",
    .suits = suits,
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::combine
