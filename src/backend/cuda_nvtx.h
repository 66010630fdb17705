#pragma once
#include <functional>
#include <map>
#include <nvtx3/nvtx3.hpp>
#include <string>
#include <string_view>

namespace sdm::cuda {

/// Push and pop ranges of the NVTX domain "sdm-bench". Names are registered once, so that a push costs a look-up.
class NvtxRanges {
 public:
  void push(std::string_view name) {
    auto at = names_.find(name);
    if (at == names_.end()) at = names_.try_emplace(std::string(name), std::string(name)).first;
    const nvtx3::event_attributes attributes(at->second);
    nvtxDomainRangePushEx(nvtx3::domain::get<Domain>(), attributes.get());
  }
  void pop() { nvtxDomainRangePop(nvtx3::domain::get<Domain>()); }

 private:
  struct Domain {
    static constexpr char const* name = "sdm-bench";
  };
  std::map<std::string, nvtx3::registered_string_in<Domain>, std::less<>> names_;
};

}  // namespace sdm::cuda
