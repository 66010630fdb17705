// effective_config_json of expand.h: cases back to config text.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/checks.h"
#include "config/expand.h"

namespace sdm {
namespace config {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Scalar& scalar) {
  return std::visit(
      [](const auto& value) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
          return nullptr;
        } else {
          return value;
        }
      },
      scalar);
}

/// Whether a sparse case was given batch and heads in place of streams.
bool gives_heads(const Case& c) {
  return std::holds_alternative<SparseWorkload>(c.workload) && c.params.contains("heads");
}

/// Of streams, or batch and heads: what the case was not given.
bool is_other_spelling(const Field& field, const Case& c) {
  if (!std::holds_alternative<SparseWorkload>(c.workload)) return false;
  if (field.path == "workload.streams") return gives_heads(c);
  return (field.path == "workload.batch" || field.path == "workload.heads") && !gives_heads(c);
}

Draft draft_of(const Case& c) {
  Draft draft;
  if (const auto* dense = std::get_if<DenseWorkload>(&c.workload)) {
    draft.kind = WorkloadKind::dense;
    draft.dense = *dense;
  } else {
    draft.sparse = std::get<SparseWorkload>(c.workload);
    draft.gradient = draft.sparse.grad_dtype == DType::f32 ? GradientChoice::f32 : GradientChoice::bf16;
    if (gives_heads(c)) draft.batch = std::stoll(c.params.at("batch")), draft.heads = std::stoll(c.params.at("heads"));
  }
  draft.variants = c.variants;
  draft.launch = c.launch;
  draft.timing = c.timing;
  return draft;
}

Json check_json(const CheckSpec& spec) {
  for (const CheckOption& option : check_options()) {
    if (option.kind != spec.kind) continue;
    Json value;
    switch (option.type) {
      case CheckOption::Type::none: return option.check;
      case CheckOption::Type::boolean:
        value = spec.kind == CheckSpec::Kind::replay  ? spec.lockstep
                : spec.kind == CheckSpec::Kind::agree ? spec.ladder
                                                      : spec.round_bank;
        break;
      case CheckOption::Type::integer: value = spec.runs; break;
      case CheckOption::Type::word_list:
        if (spec.axes.empty()) return option.check;
        value = spec.axes;
    }
    return Json{{option.check, Json{{option.name, value}}}};
  }
  return nullptr;
}

/// The shared keys of one case, every default written out.
Json section_json(const Case& c) {
  const Draft draft = draft_of(c);
  std::string distribution;
  Json out = Json::object();
  for (const Field& field : fields()) {
    const bool unset_variant = field.path.starts_with("variants.") && !c.variants.contains(field.path.substr(9));
    const bool timing = field.path.starts_with("timing.");
    if (!applies(field, draft.kind, distribution) || is_other_spelling(field, c) || unset_variant ||
        (timing && !c.timed))
      continue;
    const Json value = to_json(field.get(draft));
    if (field.path == "workload.distribution.kind") distribution = value.get<std::string>();
    Json* at = &out;
    std::size_t begin = 0;
    for (std::size_t dot = field.path.find('.'); dot != std::string::npos; dot = field.path.find('.', begin)) {
      at = &(*at)[field.path.substr(begin, dot - begin)];
      begin = dot + 1;
    }
    (*at)[field.path.substr(begin)] = value;
  }
  Json checks = Json::array();
  for (const CheckSpec& spec : c.checks) checks.push_back(check_json(spec));
  out["checks"] = checks;
  return out;
}

}  // namespace
}  // namespace config

std::string effective_config_json(std::span<const Case> cases) {
  using config::Json;
  std::vector<Json> configs;
  for (const Case& c : cases) {
    const std::size_t slash = c.id.find('/');
    const std::string name = c.id.substr(0, slash);
    if (configs.empty() || configs.back()["name"] != name) configs.push_back(Json{{"schema", 1}, {"name", name}});
    Json section = config::section_json(c);
    if (slash == std::string::npos) {
      configs.back().update(section);
    } else {
      Json named{{"name", c.id.substr(slash + 1)}};
      named.update(section);
      configs.back()["cases"].push_back(std::move(named));
    }
  }
  // Texts come from UTF-8 files, or from a command line that may hold anything.
  constexpr auto kReplace = Json::error_handler_t::replace;
  return configs.size() == 1 ? configs[0].dump(2, ' ', false, kReplace) : Json(configs).dump(2, ' ', false, kReplace);
}

}  // namespace sdm
