#include "config/overrides.h"

#include <algorithm>

#include "config/checks.h"

namespace sdm::config {
namespace {

std::vector<std::string> settable_paths() {
  std::vector<std::string> out = sweepable_paths();
  out.emplace_back("checks");
  return out;
}

/// The value as JSON, or as a text when it is not JSON: nobody wants to quote words on a command line.
JsonNode value_of(const std::string& text, const std::string& file, Problems& problems) {
  Problems syntax;
  if (auto node = read_json(text, file, syntax); node && syntax.empty()) return std::move(*node);
  JsonNode node;
  node.scalar = text;
  const bool bracketed = !text.empty() && (text[0] == '[' || text[0] == '{');
  if (bracketed) problems.add({file, {}, ""}, fmt::format("the value {} is no JSON", in_quotes(text)));
  return node;
}

void forget_lines(JsonNode& node) {
  node.at = {};
  for (JsonNode& item : node.items) forget_lines(item);
  for (JsonMember& member : node.members) {
    member.at = {};
    forget_lines(member.value);
  }
}

}  // namespace

Overrides::Overrides(const std::vector<std::string>& texts, Problems& problems) {
  for (const std::string& text : texts) read(text, problems);
}

void Overrides::read(const std::string& text, Problems& problems) {
  const std::string file = "--set " + text;
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    problems.add({file, {}, ""}, "expected path=value, for example workload.tokens=512");
    return;
  }
  const std::string path = text.substr(0, equals);
  const Origin origin{file, {}, path};
  if (path != "checks" && !is_section(path) && fields_at(path).empty()) {
    if (problems.full()) return problems.add(origin, "");
    const std::size_t dot = path.rfind('.');
    const std::string section = dot == std::string::npos ? "" : path.substr(0, dot);
    const std::string legal = is_section(section)
                                  ? fmt::format("{} has the keys {}", section, joined(keys_in(section, std::nullopt)))
                                  : std::string("legal: launch, checks, and paths in workload, variants, timing");
    problems.add(origin, fmt::format("no such path; {}{}", legal, did_you_mean(path, settable_paths())));
    return;
  }
  JsonNode node = value_of(text.substr(equals + 1), file, problems);
  forget_lines(node);  // the command line has none
  read_value(path, node, origin, problems);
}

void Overrides::read_value(const std::string& path, const JsonNode& node, const Origin& origin, Problems& problems) {
  if (path == "checks") {
    checks_ = read_checks(node, origin, problems);
    return;
  }
  if (!is_section(path)) remove_path(axes_, path);
  if (is_section(path) || node.kind != JsonNode::Kind::array) {
    Layer layer;
    read_settings(node, path, origin, std::nullopt, layer, problems);
    overlay(settings_, layer);
    return;
  }
  settings_.erase(path);
  std::vector<Setting> values = read_values(node, path, origin, std::nullopt, problems);
  if (!values.empty()) axes_.push_back({{path}, {std::move(values)}});
}

void Overrides::apply_to(Section& section) {
  if (checks_) section.checks = checks_;
  const auto timing = [](const std::string& path) { return path.starts_with("timing."); };
  section.timed =
      section.timed || std::any_of(settings_.begin(), settings_.end(), [&](const auto& s) { return timing(s.first); });
  if (!section.sweep) section.sweep.emplace();
  for (const auto& entry : settings_) remove_path(*section.sweep, entry.first);
  Layer settings = section.settings;
  overlay(settings, settings_);
  const std::optional<WorkloadKind> kind = kind_of(settings);
  for (const SweepAxis& axis : axes_) {
    const auto candidates = fields_at(axis.paths[0]);
    const bool fits =
        std::any_of(candidates.begin(), candidates.end(), [&](const Field* f) { return !kind || applies(*f, *kind); });
    if (!fits) continue;
    used_.insert(axis.paths[0]);
    section.timed = section.timed || timing(axis.paths[0]);
    const auto same = std::find_if(section.sweep->begin(), section.sweep->end(),
                                   [&](const SweepAxis& other) { return other.paths == axis.paths; });
    if (same != section.sweep->end()) {
      *same = axis;
    } else {
      remove_path(*section.sweep, axis.paths[0]);
      section.sweep->push_back(axis);
    }
  }
}

void Overrides::apply_to(Layer& settings) {
  Layer chosen = settings;
  overlay(chosen, settings_);
  const WorkloadKind kind = kind_of(chosen).value_or(WorkloadKind::sparse);
  const std::string distribution = distribution_of(chosen);
  Layer fitting;
  for (const auto& [path, setting] : settings_) {
    const auto candidates = fields_at(path);
    const bool fits = std::any_of(candidates.begin(), candidates.end(),
                                  [&](const Field* f) { return applies(*f, kind, distribution); });
    if (!fits) continue;
    fitting.emplace(path, setting);
    used_.insert(path);
  }
  overlay(settings, fitting);
}

void Overrides::finish(Problems& problems) const {
  const auto report = [&](const std::string& path, const Origin& origin) {
    if (!used_.contains(path)) problems.add(origin, "no case of these configs has this key");
  };
  for (const auto& [path, setting] : settings_) report(path, setting.origin);
  for (const SweepAxis& axis : axes_) {
    Origin origin = axis.values[0][0].origin;
    origin.path = axis.paths[0];
    report(axis.paths[0], origin);
  }
}

}  // namespace sdm::config
