#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "run/sparse_session.h"

namespace sdm {

/// Runs cases again in a new process of this executable, without checks and timing, and keeps their digests. One
/// process serves all cases of a config, so that a GPU's context is made once.
class FreshProcess {
 public:
  /// `arguments`: what the new process must be told beside the cases (device, threads, a planted fault). `stop`: true
  /// ends the new process, too.
  FreshProcess(std::vector<Case> cases, std::vector<std::string> arguments, std::function<bool()> stop)
      : cases_(std::move(cases)), arguments_(std::move(arguments)), stop_(std::move(stop)) {}

  /// Digests of one of the cases, both passes in one; the first call for a config starts its process. Throws UserError
  /// where that fails, with the last line that it said.
  const Digests& digests(const std::string& case_id);

 private:
  void run(const std::string& config);

  std::vector<Case> cases_;
  std::vector<std::string> arguments_;
  std::function<bool()> stop_;
  std::map<std::string, std::string> ended_;  ///< config -> how its process ended
  std::map<std::string, Digests> digests_;
};

/// The cases among `cases` that ask for a fresh process.
std::vector<Case> cases_with_process(std::span<const Case> cases);

}  // namespace sdm
