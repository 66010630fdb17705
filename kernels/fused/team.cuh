#pragma once
// A CTA's place in its team, and the order of phases within a team. Device code only.
#include <cassert>

#include "kernels/fused/team.h"

namespace sdm::fused {

/// Adds 1 with release order: what the CTA wrote before its barrier is visible to who sees the sum.
__device__ __forceinline__ void add_release(std::uint32_t* counter) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}
/// What was written before the sum was added to is visible to who sees it: the load drops the lines that the
/// multiprocessor's L1 holds. Relaxed loads and then a fence took longer: forward at default on an H200 1,230 us
/// against 1,180, perhaps since a fence waits for this thread's own row loads, too.
__device__ __forceinline__ std::uint32_t load_acquire(const std::uint32_t* counter) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}
__device__ __forceinline__ std::uint64_t nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// A wait that takes this long is a defect (or a machine that stopped): the kernel traps rather than hang. Steps take
/// microseconds to milliseconds; another process may hold the GPU for seconds.
inline constexpr std::uint64_t kWatchdogNanoseconds = 20'000'000'000ull;
/// A build without NDEBUG gives up after so many polls of a wait, 0.9 s on an H200, with a message that names the CTA.
/// Polls and not time: a GPU that another process holds, a debugger or a sanitizer does not make them run on.
inline constexpr unsigned kMostPolls = 1u << 22;

/// Counters only grow within a launch: counter `phase` is the sum of arrivals, one for each CTA and step that has a
/// share of the phase. A CTA waits for all others of its team at least once a step, so that no counter can run ahead of
/// a step that is still being counted.
class Team {
 public:
  __device__ Team(const TeamShape& shape, int streams, std::uint32_t* counters)
      : rank(static_cast<int>(blockIdx.x) % shape.ctas), size(shape.ctas) {
    const int team = static_cast<int>(blockIdx.x) / shape.ctas;
    first_stream = team * shape.streams;
    this->streams = min(shape.streams, streams - first_stream);
    counters_ = counters + team * (kMostPhases * kCounterStride);
  }
  /// This CTA has done its share of the phase. Also the CTA's barrier before shared memory is used anew.
  __device__ __forceinline__ void arrive(int phase) const {
    __syncthreads();
    if (threadIdx.x == 0) add_release(counters_ + phase * kCounterStride);
  }
  /// One thread only: until `phase` has `arrivals`.
  __device__ __forceinline__ void poll(int phase, int arrivals) const {
    const std::uint32_t* counter = counters_ + phase * kCounterStride;
    std::uint64_t begin = 0;
    for (unsigned turn = 1; load_acquire(counter) < static_cast<std::uint32_t>(arrivals); ++turn) {
      assert(turn < kMostPolls && "a wait of the fused kernel does not end");
      if (turn % 4096 == 0) {
        const std::uint64_t now = nanoseconds();
        if (begin == 0) begin = now;
        if (now - begin > kWatchdogNanoseconds) __trap();
      }
    }
  }

  int rank, size, first_stream, streams;

 private:
  std::uint32_t* counters_;
};

/// Waits at its first call, which the whole CTA makes, for the arrivals of one phase or two. What the arrived CTAs
/// wrote is then visible to this CTA.
struct WaitOnce {
  const Team& team;
  int phase, arrivals;
  int second_phase = -1, second_arrivals = 0;
  bool done = false;

  __device__ static WaitOnce nothing(const Team& team) { return {team, 0, 0, -1, 0, true}; }
  __device__ __forceinline__ void operator()() {
    if (!done) {
      if (threadIdx.x == 0) {
        team.poll(phase, arrivals);
        if (second_phase >= 0) team.poll(second_phase, second_arrivals);
      }
      __syncthreads();
    }
    done = true;
  }
};

}  // namespace sdm::fused
