#pragma once
// How to add a variant: write kernels/<stage>/<variant>.cu with its kernel, its launcher and one Variant object,
// declare that object in <stage>.h, and add one line to the stage's list in registry.cpp. `list`, sweeps, checks and
// tests find it by themselves.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

struct CUstream_st;

namespace sdm {

class Parallel;

/// What a variant promises: bits equal to the replay; equal bits on every run; or neither.
enum class Guarantee : std::uint8_t { exact, repeatable, approximate };
constexpr std::string_view name_of(Guarantee guarantee) {
  constexpr std::string_view names[] = {"exact", "repeatable", "approximate"};
  return names[static_cast<int>(guarantee)];
}

/// The GPU facts that variants may look at. They never decide bits.
struct Device {
  int compute_capability = 0;  ///< 90 for 9.0
  int multiprocessors = 0;
  std::size_t shared_memory_per_block = 0;  ///< opt-in limit, bytes
  std::size_t shared_memory_per_multiprocessor = 0;
  std::size_t l2_bytes = 0;
  bool force_portable = false;  ///< refuse architecture-specific variants, to test the portable ones on a new GPU

  /// Bulk copies by the copy engine, and dependent launch: compute capability 9.0 and newer.
  bool has_copy_engine() const { return compute_capability >= 90 && !force_portable; }
};

/// Launch geometry asked for by a check; 0 leaves the variant's own rule. Bits never depend on it.
struct Geometry {
  int tile = 0;   ///< sorted positions (or tokens) per warp tile
  int warps = 0;  ///< warps per CTA
  int depth = 0;  ///< ring depth or rows in flight
};

/// What a launch has of the device: all of it, or a share beside launches of another stream.
enum class Share : std::uint8_t {
  whole,
  first,  ///< its CTAs go before those of `rest`
  rest    ///< takes what `first` leaves
};

struct LaunchContext {
  Device device;
  CUstream_st* stream = nullptr;
  Geometry geometry;
  bool dependent_launch = false;  ///< programmatic dependent launch after the previous kernel of the stream
  Share share = Share::whole;
  int branches = 1;  ///< of a recording, at most, that deal out the streams of a pass's steps
};

template <typename Params>
struct Variant {
  std::string_view name, why;  ///< `why`: when this is the right one, one line
  Guarantee guarantee = Guarantee::exact;
  bool automatic = true;  ///< may `auto` choose it
  /// A stage before this one of which it reads nothing, though its Params may point to what that stage writes: the two
  /// may run beside each other.
  std::string_view independent_of = {};
  /// Where `auto` may choose it; null: wherever it is accepted. A name forces it all the same.
  bool (*suits)(const Params&, const Device&) = nullptr;
  /// Empty: accepted; else the reason shown to the user and what would be needed. Looks at sizes and types only.
  std::string (*refuse)(const Params&, const Device&) = nullptr;
  void (*launch)(const Params&, const LaunchContext&) = nullptr;
  /// The launch shape in words, for the result.
  std::string (*describe)(const Params&, const LaunchContext&) = nullptr;
  /// Device memory that the launch needs in Params::scratch, from sizes alone; null: none.
  std::int64_t (*scratch_bytes)(const Params&) = nullptr;
};

template <typename Params_>
struct Stage {
  using Params = Params_;
  std::string_view name, known_as;  ///< `known_as`: what the field calls it, may be empty
  void (*replay)(const Params&, Parallel&) = nullptr;
  std::span<const Variant<Params>* const> variants;  ///< priority order: "auto" takes the first not refused
};

/// A stage with the variant that will run it; without a variant the host replay runs.
template <typename Params>
struct StagePick {
  const Stage<Params>* stage = nullptr;
  const Variant<Params>* variant = nullptr;
};

}  // namespace sdm
