#pragma once
// Work that is no part of the operator: what runs beside a pass while a check repeats it, and the faults that only a
// GPU itself can make. CUDA builds only.
#include <cstddef>
#include <cstdint>

#include "kernels/stage.h"

namespace sdm::load {

/// Fused multiply-adds on `blocks` CTAs of 256 threads, `rounds` times 64 a thread; `sink` takes [blocks] floats.
void arithmetic(float* sink, int blocks, int rounds, const LaunchContext& context);

/// Reads and writes random words of `buffer`, `rounds` a thread, on `blocks` CTAs of 256 threads. A buffer of more than
/// the L2's size leaves nothing of the neighbours' lines in it.
void thrash(std::uint32_t* buffer, std::uint64_t words, std::uint32_t seed, int blocks, int rounds,
            const LaunchContext& context);

/// What the host and the CTAs of hold_half tell each other; in pinned memory that both see, zeroed before the launch.
struct HoldControl {
  std::uint32_t arrived;  ///< CTAs that have begun
  std::uint32_t held;     ///< CTAs that stay
  std::uint32_t release;  ///< set by the host: all CTAs leave
  std::uint32_t expired;  ///< set by a CTA that left because the time limit was over
};

/// Takes half of the multiprocessors: two CTAs, each of half of a multiprocessor's threads, come to every
/// multiprocessor and wait for each other; then those on the first half stay until `release` and the others leave.
/// Nothing else may run on the device meanwhile. Every CTA leaves after `limit_ns` in any case.
void hold_half(HoldControl* control, int threads_per_multiprocessor, std::uint64_t limit_ns,
               const LaunchContext& context);

/// Planted fault: 2^16 float atomics of many magnitudes onto *element: their order, and so the sum, is the scheduler's.
void add_in_any_order(float* element, const LaunchContext& context);

/// Planted fault: adds 1 to *element again and again for `ns`, for a stream of its own that nobody waits for.
void keep_adding(float* element, std::uint64_t ns, const LaunchContext& context);

/// Planted fault: writes where no memory is; the context is lost.
void write_nowhere(const LaunchContext& context);

/// Planted fault: one thread that never ends. Only the end of the process ends it.
void never_end(const LaunchContext& context);

}  // namespace sdm::load
