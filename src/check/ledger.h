#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/result.h"

namespace sdm {

/// How the digests of two runs of one case differ.
struct Difference {
  std::string where;             ///< the first tensor in pipeline order, as "stage/tensor"; empty: nothing differs
  std::set<std::string> stages;  ///< every stage with a tensor that differs
};

/// Collects what the checks of a case saw, and makes the result's determinism section of it (docs/determinism.md).
class DeterminismLedger {
 public:
  /// A comparison that ran. `level` is the one that it speaks for; `check` names it.
  void note(std::string check, DeterminismLevel level, const Difference& difference);
  /// A variant that was run beside the chosen one. Its level is what was seen of it alone; finish() lowers it to the
  /// reference's own where it can know no more.
  void note_alternative(StageDeterminism row) { alternatives_.push_back(std::move(row)); }
  void note_price(DeterminismPrice price) { prices_.push_back(std::move(price)); }

  const std::vector<DeterminismPrice>& prices() const { return prices_; }

  /// The section; nothing where no check spoke. `host_replay`: the case ran as the host's replay, which has one launch
  /// mode and is what cpu_equal compares with.
  std::optional<Determinism> finish(const std::map<std::string, ResolvedVariant>& variants, bool host_replay) const;

 private:
  struct Entry {
    DeterminismEvidence evidence;
    Difference difference;
  };
  StageDeterminism judge(const std::string& stage, const ResolvedVariant& variant, bool host_replay) const;
  bool cpu_equal_seen() const;

  std::vector<Entry> entries_;
  std::vector<StageDeterminism> alternatives_;
  std::vector<DeterminismPrice> prices_;
};

}  // namespace sdm
