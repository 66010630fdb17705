#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "pretend_device.h"

namespace sdm::test {

inline CUstream_st* stream_number(int n) { return reinterpret_cast<CUstream_st*>(std::uintptr_t{1} + n); }

/// A device that forks, up to `most` streams beside its own (number 0), inside recordings and outside. Counts the
/// forks, the joins and every stage's launches.
class ForkingDevice final : public PretendDevice {
 public:
  explicit ForkingDevice(int most) : most_(most) {}
  CUstream_st* fork() override { return ++forked, open_ < most_ ? stream_number(++open_) : nullptr; }
  void join() override { ++joined, open_ = 0; }
  void after_launch(std::string_view stage, int) override { ++launches[std::string(stage)]; }
  int forked = 0, joined = 0;
  std::map<std::string, int> launches;

 private:
  int most_, open_ = 0;
};

/// A stage of no meaning that notes how it was launched.
struct Noting {
  std::vector<LaunchContext>* launched;
};
inline constexpr Variant<Noting> kNotingVariant{
    .name = "noting", .launch = [](const Noting& p, const LaunchContext& context) { p.launched->push_back(context); }};
inline constexpr Stage<Noting> kNotingStage{.name = "noting"};

}  // namespace sdm::test
