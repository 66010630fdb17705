#include "check/numerics.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "base/error.h"

namespace sdm {
namespace {

using sweep::Function;

template <Function f>
std::uint32_t dot(std::uint32_t number) {
  float partial[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) partial[lane] = sweep::lane_partial(number, lane);
  return sweep::canonical_bits(f == Function::near_dot ? tree_sum_near_first(partial) : tree_sum_far_first(partial));
}

/// Calls visit(input, output) for the inputs of a block, in order.
template <Function f, typename Visit>
void each_input(std::uint32_t block, Visit&& visit) {
  const std::uint32_t first = block * sweep::kBlock;
  if constexpr (sweep::is_dot(f)) {
    for (std::uint32_t i = 0; i < sweep::kBlock; i += 32) visit(first + i, dot<f>((first + i) / 32));
  } else {
    for (std::uint32_t i = 0; i < sweep::kBlock; ++i) visit(first + i, sweep::output_of<f>(first + i));
  }
}

template <int i = 0, typename Body>
void dispatch(Function f, Body&& body) {
  if constexpr (i < sweep::kFunctions) {
    if (static_cast<int>(f) == i) return body.template operator()<static_cast<Function>(i)>();
    dispatch<i + 1>(f, body);
  }
}

std::uint64_t host_sum(Function f, std::uint32_t block) {
  std::uint64_t sum = 0;
  dispatch(f, [&]<Function which>() {
    each_input<which>(block, [&](std::uint32_t input, std::uint32_t output) { sum += sweep::term(input, output); });
  });
  return sum;
}

/// The first input of the block whose outputs differ, in words.
std::string first_difference(Function f, std::uint32_t block, const std::vector<std::uint32_t>& other) {
  std::string found;
  std::size_t i = 0;
  dispatch(f, [&]<Function which>() {
    each_input<which>(block, [&](std::uint32_t input, std::uint32_t output) {
      if (i < other.size() && other[i] != output && found.empty())
        found = fmt::format("{} of input 0x{:08x}: the host has 0x{:08x}, the device 0x{:08x}", name_of(f), input,
                            output, other[i]);
      ++i;
    });
  });
  return found.empty()
             ? fmt::format("{}: the sums of block {} differ, its outputs do not: not stable", name_of(f), block)
             : found;
}

class DeviceSide final : public SweepSide {
 public:
  DeviceSide(Backend& backend, std::uint64_t fault) : backend_(backend), fault_(fault) {}

  std::vector<std::uint64_t> sums(Function f, std::uint32_t blocks) override {
    return from_device<std::uint64_t>(
        f, blocks, [&](std::uint64_t* out) { sweep::launch_sums(f, out, blocks, fault_, backend_.launch_context()); });
  }
  std::vector<std::uint32_t> outputs(Function f, std::uint32_t block) override {
    return from_device<std::uint32_t>(f, sweep::kBlock / (sweep::is_dot(f) ? 32 : 1), [&](std::uint32_t* out) {
      sweep::launch_outputs(f, out, block, fault_, backend_.launch_context());
    });
  }

 private:
  template <typename T, typename Launch>
  std::vector<T> from_device(Function f, std::size_t count, Launch&& launch) {
    std::vector<T> values(count);
    const auto release = [this](void* memory) { backend_.release(memory); };
    const std::unique_ptr<void, decltype(release)> memory(backend_.allocate(count * sizeof(T)), release);
    launch(static_cast<T*>(memory.get()));
    backend_.after_launch(name_of(f), -1);
    backend_.download(values.data(), memory.get(), count * sizeof(T));
    return values;
  }

  Backend& backend_;
  std::uint64_t fault_;
};

}  // namespace

std::unique_ptr<SweepSide> device_side(Backend& backend, std::uint64_t fault) {
  return std::make_unique<DeviceSide>(backend, fault);
}

SweepVerdict sweep_function(Function f, std::uint32_t blocks, SweepSide& other, Parallel& threads) {
  SweepVerdict verdict{f, std::uint64_t{blocks} * sweep::kBlock, {}};
  const std::vector<std::uint64_t> theirs = other.sums(f, blocks);
  SDM_REQUIRE(theirs.size() == blocks, "{} sums of {} blocks", theirs.size(), blocks);
  std::vector<std::uint64_t> ours(blocks);
  threads.for_each(blocks, [&](std::int64_t block) {
    ours[static_cast<std::size_t>(block)] = host_sum(f, static_cast<std::uint32_t>(block));
  });
  for (std::uint32_t block = 0; block < blocks && verdict.difference.empty(); ++block)
    if (ours[block] != theirs[block]) verdict.difference = first_difference(f, block, other.outputs(f, block));
  return verdict;
}

}  // namespace sdm
