#include "config/expand.h"

#include <algorithm>
#include <set>

#include "config/overrides.h"
#include "config/rules.h"

namespace sdm {
namespace config {
namespace {

/// Keys younger than stored results. Where they hold their defaults, `params` are without them, as those results are,
/// so that both stay comparable.
bool is_later(const Field& field) {
  constexpr std::string_view kLater[] = {"workload.values", "workload.gather_saves", "workload.gradient_copy"};
  return std::find(std::begin(kLater), std::end(kLater), field.path) != std::end(kLater);
}

bool has_field(const std::string& path, WorkloadKind kind) {
  const auto candidates = fields_at(path);
  return std::any_of(candidates.begin(), candidates.end(), [&](const Field* field) { return applies(*field, kind); });
}

/// A case as it stands in the file, with what it inherits. Its own values also end inherited sweeps of the same paths.
Section inherit(const Section& top, const Section& own) {
  Section out = own;
  out.settings = top.settings;
  overlay(out.settings, own.settings);
  out.timed = top.timed || own.timed;
  if (!own.checks) out.checks = top.checks;
  if (own.sweep || !top.sweep) return out;
  out.sweep = top.sweep;
  const std::optional<WorkloadKind> kind = kind_of(out.settings);
  const bool other_kind = kind && kind != kind_of(top.settings);
  for (const SweepAxis& axis : *top.sweep) {
    for (const std::string& path : axis.paths) {
      if (own.settings.contains(path) || (other_kind && !has_field(path, *kind))) remove_path(*out.sweep, path);
    }
  }
  return out;
}

class Expander {
 public:
  Expander(const ExpandOptions& options, Problems& problems)
      : options_(options), problems_(problems), overrides_(options.overrides, problems) {}

  void add(const ConfigFile& config) {
    const auto [known, fresh] = names_.emplace(config.top.name, config.file);
    if (!fresh && !config.top.name.empty()) {
      problems_.add(
          {config.file, config.top.origin.at, "name"},
          fmt::format("{} is also the name of {}; case ids would collide", in_quotes(config.top.name), known->second));
    }
    if (config.cases.empty()) add_section(config, config.top);
    for (const Section& own : config.cases) add_section(config, inherit(config.top, own));
  }

  std::vector<Case> finish() {
    if (!cases_.empty()) overrides_.finish(problems_);
    return std::move(cases_);
  }

 private:
  void add_section(const ConfigFile& config, Section section) {
    overrides_.apply_to(section);
    const Sweep& sweep = *section.sweep;
    const std::size_t points = count_points(sweep, options_.max_cases);
    if (points > options_.max_cases - std::min(options_.max_cases, cases_.size())) {
      if (!overflow_)
        problems_.add(section.origin, fmt::format("the sweeps come to more than {} cases", options_.max_cases));
      overflow_ = true;
      return;
    }
    const bool is_top = config.cases.empty();
    for (std::size_t point = 0; point < points; ++point) {
      Layer settings = section.settings;
      overlay(settings, settings_at(sweep, point));
      overrides_.apply_to(settings);
      Case made = build(section, std::move(settings));
      made.name = is_top ? config.top.name : section.name;
      made.id = config.top.name + (is_top ? "" : "/" + section.name) + point_name(sweep, point);
      if (!ids_.insert(made.id).second) {
        problems_.add(section.origin, fmt::format("two cases have the id {}; rename one, or sweep each value once",
                                                  in_quotes(made.id)));
      }
      cases_.push_back(std::move(made));
    }
  }

  Case build(const Section& section, Layer settings) {
    Draft draft;
    const std::optional<WorkloadKind> kind = kind_of(settings);
    if (!settings.contains("workload.kind")) {
      Origin at = section.origin;
      at.path += at.path.empty() ? "workload.kind" : ".workload.kind";
      problems_.add(at, "missing; legal: one of sparse, dense");
    }
    reject_foreign(settings, kind.value_or(WorkloadKind::sparse), problems_);
    fill(draft, settings, kind.value_or(WorkloadKind::sparse));
    resolve(draft, settings, section.origin, problems_);
    return finished(draft, section, settings);
  }

  void fill(Draft& draft, Layer& settings, WorkloadKind kind) {
    const std::string distribution = distribution_of(settings);
    for (auto& [path, setting] : settings) {
      if (!setting.valid) continue;
      for (const Field* field : fields_at(path)) {
        if (!applies(*field, kind)) continue;
        if (!applies(*field, kind, distribution)) {
          problems_.add(setting.origin,
                        fmt::format("{} is given beside workload.distribution.kind {}; legal only beside {}", path,
                                    distribution, field->distribution));
        } else if (!check_value(*field, setting.value)) {  // legal for the other kind only, which the layer left open
          problems_.add(setting.origin,
                        fmt::format("{} is not legal; legal: {}", shown(setting.value), legal_text(*field)));
          setting.valid = false;
        } else {
          field->set(draft, setting.value);
        }
      }
      if (path.starts_with("variants.")) check_variant(path.substr(9), setting);
    }
  }

  void check_variant(const std::string& stage, const Setting& setting) {
    const auto& name = std::get<std::string>(setting.value);
    if (options_.variants.empty() || name == "auto") return;
    std::vector<std::string> legal = {"auto"};
    for (const auto& [known_stage, names] : options_.variants) {
      if (stage != "*" && stage != known_stage) continue;
      for (const std::string& known : names) {
        if (std::find(legal.begin(), legal.end(), known) == legal.end()) legal.push_back(known);
      }
    }
    if (std::find(legal.begin(), legal.end(), name) != legal.end()) return;
    problems_.add(setting.origin,
                  fmt::format("{} is no variant of {}; legal: {}{}", in_quotes(name),
                              stage == "*" ? "any stage" : stage, joined(legal), did_you_mean(name, legal)));
  }

  static Case finished(const Draft& draft, const Section& section, const Layer& settings) {
    Case out;
    if (draft.kind == WorkloadKind::dense) {
      out.workload = draft.dense;
    } else {
      out.workload = draft.sparse;
    }
    out.variants = draft.variants;
    out.launch = draft.launch;
    out.checks = section.checks.value_or(std::vector<CheckSpec>{});
    out.timed = section.timed;
    out.timing = draft.timing;
    constexpr std::string_view kWorkload = "workload.";
    const std::string distribution = distribution_of(settings);
    for (const Field& field : fields()) {
      if (!field.path.starts_with(kWorkload) || !applies(field, draft.kind, distribution)) continue;
      const bool split =
          draft.kind == WorkloadKind::sparse && (field.path == "workload.batch" || field.path == "workload.heads");
      const bool given = settings.contains("workload.batch") || settings.contains("workload.heads");
      if (split && !given) continue;
      const std::string value = plain_text(field.get(draft));
      if (is_later(field) && value == plain_text(field.get(Draft{}))) continue;
      out.params.emplace(field.path.substr(kWorkload.size()), value);
    }
    return out;
  }

  const ExpandOptions& options_;
  Problems& problems_;
  Overrides overrides_;
  std::map<std::string, std::string> names_;  ///< config name -> file
  std::set<std::string> ids_;
  std::vector<Case> cases_;
  bool overflow_ = false;
};

}  // namespace
}  // namespace config

std::vector<Case> expand(std::span<const ConfigFile> configs, const ExpandOptions& options) {
  config::Problems problems;
  config::Expander expander(options, problems);
  for (const ConfigFile& config : configs) expander.add(config);
  std::vector<Case> cases = expander.finish();
  problems.raise();
  return cases;
}

std::vector<Case> expand(const ConfigFile& config, const ExpandOptions& options) {
  return expand(std::span<const ConfigFile>(&config, 1), options);
}

std::vector<Case> load_cases(std::span<const std::string> paths, const ExpandOptions& options) {
  config::Problems problems;
  config::Expander expander(options, problems);
  for (const std::string& path : paths) {
    const auto text = config::read_file(path, problems);
    if (!text) continue;
    const auto config = config::read_config(*text, path == "-" ? "stdin" : path, problems);
    if (config) expander.add(*config);
  }
  std::vector<Case> cases = expander.finish();
  problems.raise();
  return cases;
}

std::vector<Case> parse_cases(std::string_view text, const std::string& file, const ExpandOptions& options) {
  config::Problems problems;
  config::Expander expander(options, problems);
  const auto config = config::read_config(text, file, problems);
  if (config) expander.add(*config);
  std::vector<Case> cases = expander.finish();
  problems.raise();
  return cases;
}

}  // namespace sdm
