#include "report/compare.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "report/compare_command.h"
#include "report/compare_values.h"

namespace sdm {
namespace {

bool exact(const std::map<std::string, ResolvedVariant>& variants) {
  return std::all_of(variants.begin(), variants.end(), [](const auto& entry) {
    return entry.second.guarantee.empty() || entry.second.guarantee == "exact";
  });
}

bool same_choice(const std::map<std::string, ResolvedVariant>& a, const std::map<std::string, ResolvedVariant>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && x.second.name == y.second.name; });
}

std::string versions(const std::set<int>& contracts) {
  std::vector<std::string> words;
  for (const int contract : contracts) words.push_back(std::to_string(contract));
  return join(words);
}

class Comparer {
 public:
  explicit Comparer(Comparison& out) : out_(out), rules_(out.rules) {}

  void run() {
    if (out_.base.devices != out_.now.devices && !rules_.cross_device && !rules_.digests_only)
      out_.refused = fmt::format(
          "the base ran on {}, the new side on {}: times of different devices are compared with --cross-device only, "
          "digests with --digests",
          names(out_.base.devices), names(out_.now.devices));
    for (const MergedCase& base : out_.base.cases) {
      const MergedCase* now = out_.now.find(base.result.id);
      out_.cases.push_back(now ? both(base, *now) : alone(base, Presence::missing));
    }
    for (const MergedCase& now : out_.now.cases)
      if (!out_.base.find(now.result.id)) out_.cases.push_back(alone(now, Presence::added));
    count();
    conclude();
  }

 private:
  static std::string names(const std::set<std::string>& devices) {
    return devices.empty() ? "an unknown device" : join(std::vector(devices.begin(), devices.end()));
  }

  static ComparedCase alone(const MergedCase& one, Presence presence) {
    ComparedCase out;
    out.id = one.result.id;
    out.presence = presence;
    (presence == Presence::added ? out.new_status : out.base_status) = one.result.status;
    out.reason = one.result.reason;
    out.comparable = false;
    out.digest_note = presence == Presence::added ? "not in the base" : "not in the new results";
    return out;
  }

  ComparedCase both(const MergedCase& base, const MergedCase& now) const {
    ComparedCase out;
    out.id = base.result.id;
    out.base_status = base.result.status;
    out.new_status = now.result.status;
    if (const std::string why = why_not_comparable(base, now); !why.empty()) {
      out.comparable = false;
      out.reason = why;
      out.digest_note = "the case is not comparable";
      return out;
    }
    digests(base, now, out);
    if (!rules_.digests_only && out_.refused.empty()) times(base, now, out);
    return out;
  }

  std::string why_not_comparable(const MergedCase& base, const MergedCase& now) const {
    for (const auto& [side, name] : {std::pair{&base, "base"}, {&now, "new"}})
      if (!side->other_params.empty())
        return fmt::format("runs of the {} side have other parameters under one id: {}", name,
                           join(side->other_params));
    auto keys = differing_keys(base.result.params, now.result.params);
    // Stored inputs (gen) give the bits of the workload that they were made from.
    if (rules_.digests_only)
      std::erase_if(keys, [](const std::string& key) { return key.starts_with("distribution."); });
    if (!keys.empty()) return fmt::format("the parameters differ: {}", join(keys));
    for (const auto& [side, name] : {std::pair{&now, "new"}, {&base, "base"}})
      if (side->result.status != CaseStatus::ok)
        return fmt::format("{} in the {} results{}{}", name_of(side->result.status), name,
                           side->result.reason.empty() ? "" : ": ", side->result.reason);
    return "";
  }

  static std::string why_no_digests(const MergedCase& base, const MergedCase& now) {
    if (base.contracts != now.contracts || base.contracts.size() != 1)
      return fmt::format("contract version {} in the base, {} in the new results: other bits are to be expected",
                         versions(base.contracts), versions(now.contracts));
    if (base.result.digests.empty() || now.result.digests.empty())
      return fmt::format("the {} results hold none", base.result.digests.empty() ? "base" : "new");
    const bool alike = base.device == now.device && same_choice(base.result.variants, now.result.variants);
    if (!alike && !(exact(base.result.variants) && exact(now.result.variants)))
      return "a stage is not exact, and variant or device changed";
    return "";
  }

  void digests(const MergedCase& base, const MergedCase& now, ComparedCase& out) const {
    out.digest_note = why_no_digests(base, now);
    if (!out.digest_note.empty()) return;
    for (const auto& [stage, tensors] : base.result.digests)
      for (const auto& [tensor, hex] : tensors) compare_tensor(stage, tensor, hex, now.result.digests, out);
    for (const MergedCase* side : {&base, &now})
      for (const std::string& name : side->torn)
        out.differing.push_back(fmt::format("{} (between runs of the {} side)", name, side == &base ? "base" : "new"));
    if (out.tensors == 0 && out.differing.empty())
      out.digest_note = "the two sides have no tensor in common";
    else
      out.digests = out.differing.empty() ? DigestVerdict::equal : DigestVerdict::differ;
  }

  static void compare_tensor(const std::string& stage, const std::string& tensor, const std::string& hex,
                             const decltype(CaseResult::digests)& others, ComparedCase& out) {
    const std::string name = fmt::format("{}/{}", stage, tensor);
    const auto by_stage = others.find(stage);
    if (by_stage == others.end() || !by_stage->second.contains(tensor)) {
      out.lost.push_back(name);
      return;
    }
    ++out.tensors;
    if (by_stage->second.at(tensor) != hex) out.differing.push_back(name);
  }

  void times(const MergedCase& base, const MergedCase& now, ComparedCase& out) const {
    const auto same_pass = [](const auto& a) {
      return [&a](const auto& b) { return a.name == b.name && a.l2 == b.l2; };
    };
    const auto same_stage = [](const auto& a) {
      return [&a](const auto& b) { return a.name == b.name && a.pass == b.pass && a.l2 == b.l2; };
    };
    const auto key_of_pass = [](const PassTiming& t) { return CompareRow{.pass = t.name, .stage = "", .l2 = t.l2}; };
    const auto key_of_stage = [](const StageTiming& t) {
      return CompareRow{.pass = t.pass, .stage = t.name, .l2 = t.l2};
    };
    const double noise = std::max(base.result.aa_spread.value_or(0), now.result.aa_spread.value_or(0));
    timings(base.result.passes, now.result.passes, same_pass, key_of_pass, noise, out);
    timings(base.result.stages, now.result.stages, same_stage, key_of_stage, noise, out);
    const auto memory = [](const CaseResult& result) {
      return result.peak_memory_bytes ? std::optional(static_cast<double>(*result.peak_memory_bytes)) : std::nullopt;
    };
    add({.metric = Metric::peak_memory_bytes}, "", single_value(memory(base.result)), single_value(memory(now.result)),
        0, out);
  }

  /// Rows of the base, then those of the new side alone. Order on either side does not matter.
  template <typename Timing, typename Same, typename Key>
  void timings(const std::vector<Timing>& base, const std::vector<Timing>& now, const Same& same, const Key& key,
               double noise, ComparedCase& out) const {
    const Timing nothing{};
    const auto every_metric = [&](const CompareRow& row, const Timing& old_timing, const Timing& new_timing) {
      for (int i = 0; i < kMetrics; ++i) {
        CompareRow one = row;
        one.metric = static_cast<Metric>(i);
        if (one.metric == Metric::peak_memory_bytes) continue;
        add(one, one.stage.empty() ? one.pass : one.stage, value_of(old_timing, one.metric),
            value_of(new_timing, one.metric), noise, out);
      }
    };
    for (const Timing& timing : base) {
      const auto other = std::find_if(now.begin(), now.end(), same(timing));
      every_metric(key(timing), timing, other == now.end() ? nothing : *other);
    }
    for (const Timing& timing : now)
      if (std::none_of(base.begin(), base.end(), same(timing))) every_metric(key(timing), nothing, timing);
  }

  /// `noise`: the spread that a calibration saw between runs of one build; no relative limit is finer.
  void add(CompareRow row, const std::string& place, const Measured& base, const Measured& now, double noise,
           ComparedCase& out) const {
    Limit limit = rules_.limit(place, row.metric);
    limit.relative = std::max(limit.relative, noise);
    if (limit.direction == Direction::off || (!base.value && !now.value)) return;
    row.base = base, row.now = now;
    if (base.value && now.value && *base.value != 0) row.relative = (*now.value - *base.value) / std::abs(*base.value);
    row.verdict = judge(base, now, limit, rules_, row.note);
    out.rows.push_back(std::move(row));
  }

  void count() {
    CompareTally& t = out_.tally;
    for (const ComparedCase& c : out_.cases) {
      ++t.cases;
      t.missing += c.presence == Presence::missing;
      t.added += c.presence == Presence::added;
      t.failed += c.new_status == CaseStatus::failed;
      t.not_comparable += c.presence == Presence::both && !c.comparable;
      if (c.presence == Presence::both) {
        t.digests_equal += c.digests == DigestVerdict::equal;
        t.digests_differ += c.digests == DigestVerdict::differ;
        t.digests_not_compared += c.digests == DigestVerdict::not_compared;
      }
      for (const CompareRow& row : c.rows)
        ++(row.verdict == Verdict::same        ? t.same
           : row.verdict == Verdict::faster    ? t.faster
           : row.verdict == Verdict::slower    ? t.slower
           : row.verdict == Verdict::ambiguous ? t.ambiguous
                                               : t.not_timed);
    }
  }

  /// What a gate does not let pass: anything of the base that was not answered.
  bool incomplete() const {
    const CompareTally& t = out_.tally;
    if (t.missing + t.not_comparable + t.digests_not_compared + t.ambiguous + t.not_timed > 0) return true;
    return std::any_of(out_.cases.begin(), out_.cases.end(), [](const ComparedCase& c) {
      return !c.lost.empty() || (c.presence == Presence::added && c.new_status != CaseStatus::ok);
    });
  }

  void conclude() {
    const CompareTally& t = out_.tally;
    const bool compared = t.same + t.faster + t.slower + t.ambiguous > 0 || t.digests_equal + t.digests_differ > 0;
    if (t.failed + t.digests_differ > 0)
      out_.outcome = Outcome::failed;
    else if (t.slower > 0)
      out_.outcome = Outcome::regression;
    else if (!out_.refused.empty() || !compared || (rules_.require_all && incomplete()))
      out_.outcome = Outcome::inconclusive;
    out_.more_samples = more_samples_command(out_);
  }

  Comparison& out_;
  const CompareRules& rules_;
};

}  // namespace

Comparison compare(MergedSide base, MergedSide now, const CompareRules& rules) {
  Comparison out;
  out.base = std::move(base), out.now = std::move(now);
  out.rules = rules;
  Comparer(out).run();
  return out;
}

}  // namespace sdm
