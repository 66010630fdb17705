// What several verbs need: devices, the catalogue, case selection, output.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <random>
#include <regex>

#include "base/error.h"
#include "cli/commands.h"
#include "io/atomic_file.h"
#include "kernels/registry.h"

namespace sdm {
namespace {

void require_gpu(const GpuList& gpus, std::size_t index) {
  if (gpus.devices.empty()) throw NoGpu("no usable GPU: " + gpus.why_none);
  if (index >= gpus.devices.size())
    throw NoGpu(fmt::format("there is no GPU {}; this machine has {} (cuda:0 .. cuda:{})", index, gpus.devices.size(),
                            gpus.devices.size() - 1));
}

std::vector<Case> filtered(std::vector<Case> cases, const std::string& filter) {
  if (filter.empty()) return cases;
  const std::regex pattern = id_pattern("--filter", filter);
  const std::string first = cases.empty() ? "" : cases.front().id;
  std::erase_if(cases, [&](const Case& c) { return !std::regex_search(c.id, pattern); });
  if (cases.empty())
    throw UserError(fmt::format("--filter '{}' matches no case id; the first one is '{}'", filter, first));
  return cases;
}

}  // namespace

std::regex id_pattern(std::string_view flag, const std::string& text) {
  constexpr std::size_t kLongest = 4096;  // the library's parser recurses: tens of thousands of brackets end its stack
  if (text.size() > kLongest)
    throw UserError(fmt::format("{} has {} characters; at most {} are taken", flag, text.size(), kLongest));
  try {
    return std::regex(text);
  } catch (const std::regex_error&) {
    throw UserError(fmt::format("{} '{}' is not a regular expression (ECMAScript)", flag, text));
  }
}

DeviceChoice choose_device(const std::string& name) {
  const auto cpu = [] { return DeviceChoice{"cpu", make_host_backend()->info()}; };
  if (name == "cpu") return cpu();
  const bool by_index = name.starts_with("cuda:"), by_uuid = name.starts_with("GPU-");
  if (name != "auto" && name != "cuda" && !by_index && !by_uuid)
    throw UserError(fmt::format("--device is '{}'; legal are auto, cpu, cuda, cuda:N and GPU-<uuid>", name));
  const GpuList gpus = list_gpus();
  if (name == "auto" && gpus.devices.empty()) return cpu();
  std::size_t index = 0;
  if (by_index) {
    const std::string digits = name.substr(5);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error != std::errc{} || end != digits.data() + digits.size())
      throw UserError(fmt::format("--device is '{}'; after cuda: comes the GPU's number, for example cuda:0", name));
  }
  if (by_uuid) {
    const auto found =
        std::find_if(gpus.devices.begin(), gpus.devices.end(), [&](const DeviceInfo& d) { return d.uuid == name; });
    if (found == gpus.devices.end()) throw NoGpu(fmt::format("no usable GPU has the uuid {}", name));
    index = static_cast<std::size_t>(found - gpus.devices.begin());
  }
  require_gpu(gpus, index);
  return {fmt::format("cuda:{}", index), gpus.devices[index], static_cast<int>(index)};
}

std::unique_ptr<Backend> open_device(const std::string& name, bool force_portable) {
  const DeviceChoice choice = choose_device(name);
  if (choice.gpu < 0) return make_host_backend();
  return make_cuda_backend(choice.gpu, force_portable);
}

VariantCatalogue variant_catalogue() {
  VariantCatalogue catalogue;
  registry().each([&](const auto& stage) {
    auto& names = catalogue[std::string(stage.name)];
    for (const auto* variant : stage.variants) names.emplace_back(variant->name);
  });
  return catalogue;
}

std::vector<Case> select_cases(const CaseOptions& options) {
  ExpandOptions expand;
  expand.overrides = options.set;
  if (options.seed) expand.overrides.push_back(fmt::format("workload.seed={}", *options.seed));
  if (!list_gpus().devices.empty()) expand.variants = variant_catalogue();
  std::vector<Case> cases = filtered(load_cases(options.configs, expand), options.filter);
  if (options.shuffle) {
    std::mt19937_64 engine(options.seed.value_or(1));
    std::shuffle(cases.begin(), cases.end(), engine);
  }
  return cases;
}

std::string ids_of(const std::vector<Case>& cases) {
  std::string text;
  for (const Case& c : cases) text += c.id + "\n";
  return text;
}

void emit(const CommonOptions& options, const std::string& text) {
  std::fflush(stdout);
  write_file(options.output, text, options.force);
}

}  // namespace sdm
