#pragma once
#include <memory>
#include <utility>

#include "backend/backend.h"
#include "base/parallel.h"
#include "kernels/registry.h"

namespace sdm::test {

/// Runs the recorded launches again.
class PretendRecording final : public Recording {
 public:
  explicit PretendRecording(std::function<void()> body) : body_(std::move(body)) {}
  void replay() override { body_(); }
  bool update(const std::function<void()>& body) override {
    body_ = body;
    return true;
  }

 private:
  std::function<void()> body_;
};

/// A load of nothing; `lasts` as told.
class PretendLoad final : public Load {
 public:
  explicit PretendLoad(bool lasts) : lasts_(lasts) {}
  std::string describe() const override { return "a pretended load"; }
  bool lasting() const override { return lasts_; }

 private:
  bool lasts_;
};

/// The host in the clothes of a GPU: it reports a device, so plans pick variants and checks download what they compare.
/// Its variants are host functions (see as_variant).
class PretendDevice : public Backend {
 public:
  DeviceInfo info() const override { return host_->info(); }
  const Device* device() const override { return &device_; }
  LaunchContext launch_context() const override { return {.device = device_}; }
  void* allocate(std::size_t bytes) override { return host_->allocate(bytes); }
  void release(void* memory) noexcept override { host_->release(memory); }
  std::uint64_t free_memory() const override { return host_->free_memory(); }
  void upload(void* to, const void* from, std::size_t bytes) override { host_->upload(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override { host_->download(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override { host_->copy(to, from, bytes); }
  void fill(void* to, std::uint8_t byte, std::size_t bytes) override { host_->fill(to, byte, bytes); }
  void synchronize() override {}
  void after_launch(std::string_view, int) override {}
  void push_range(std::string_view) override {}
  void pop_range() override {}
  void profiler_start() override {}
  void profiler_stop() override {}
  int mark() override { return host_->mark(); }
  double between_us(int from, int to) override { return host_->between_us(from, to); }
  void reset_marks() override { host_->reset_marks(); }
  void flush_l2() override {}
  double clock_share() const override { return 1; }
  /// As a stream capture: the body is not run by recording it.
  std::unique_ptr<Recording> record(const std::function<void()>& body) override {
    return std::make_unique<PretendRecording>(body);
  }
  std::unique_ptr<Load> start_load(LoadKind) override { return std::make_unique<PretendLoad>(loads_last); }
  bool loads_last = true;

 private:
  Device device_{.compute_capability = 90, .multiprocessors = 132};
  std::unique_ptr<Backend> host_ = make_host_backend();
};

/// A stage body that may look at the launch geometry; the host's own replay takes none.
template <typename Params>
using Body = void (*)(const Params&, Parallel&, const Geometry&);

/// Threads of the pretended device.
inline Parallel& device_threads() {
  static Parallel threads(2);
  return threads;
}

template <typename Params, Body<Params> body>
void as_replay(const Params& params, Parallel& threads) {
  body(params, threads, {});
}

template <typename Params, Body<Params> body>
void as_launch(const Params& params, const LaunchContext& context) {
  body(params, device_threads(), context.geometry);
}

template <typename Params, Body<Params> body>
Variant<Params> as_variant(std::string_view name) {
  return {.name = name,
          .why = "a test",
          .refuse = [](const Params&, const Device&) { return std::string(); },
          .launch = as_launch<Params, body>,
          .describe = [](const Params&, const LaunchContext&) { return std::string("host"); }};
}

template <typename Params, void (*replay)(const Params&, Parallel&)>
void honest(const Params& params, Parallel& threads, const Geometry&) {
  replay(params, threads);
}

/// The one variant of a stage on the pretended device: its replay.
template <typename Params, void (*replay)(const Params&, Parallel&)>
std::span<const Variant<Params>* const> honest_list() {
  static const Variant<Params> variant = as_variant<Params, honest<Params, replay>>("honest");
  static const Variant<Params>* const list[] = {&variant};
  return list;
}

/// The tool's stages with their replays as the only variants.
inline Registry pretended_stages() {
  Registry r = registry();
  r.group_entries.variants = honest_list<group_entries::Params, group_entries::replay>();
  r.decay_sums.variants = honest_list<decay_sums::Params, decay_sums::replay>();
  r.interactions.variants = honest_list<interactions::Params, interactions::replay>();
  r.solve.variants = honest_list<solve::Params, solve::replay>();
  r.combine.variants = honest_list<combine::Params, combine::replay>();
  r.gather.variants = honest_list<gather::Params, gather::replay>();
  r.mix.variants = honest_list<mix::Params, mix::replay>();
  r.write.variants = honest_list<write::Params, write::replay>();
  r.combine_grad.variants = honest_list<combine_grad::Params, combine_grad::replay>();
  r.gather_grad.variants = honest_list<gather_grad::Params, gather_grad::replay>();
  r.mix_grad.variants = honest_list<mix_grad::Params, mix_grad::replay>();
  r.undo.variants = honest_list<undo::Params, undo::replay>();
  r.read_grad.variants = honest_list<read_grad::Params, read_grad::replay>();
  r.reduce.variants = honest_list<reduce::Params, reduce::replay>();
  r.parameter_gradients.variants = honest_list<parameter_gradients::Params, parameter_gradients::replay>();
  return r;
}

}  // namespace sdm::test
