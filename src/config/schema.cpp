// config_schema_json of expand.h: the tables of fields.h and checks.h as a JSON schema.
#include <nlohmann/json.hpp>

#include "config/checks.h"
#include "config/expand.h"

namespace sdm {
namespace config {
namespace {

using Json = nlohmann::ordered_json;

Json field_schema(const Field& field) {
  Json out;
  switch (field.type) {
    case ValueType::boolean: out = {{"type", "boolean"}}; break;
    case ValueType::text: out = {{"type", "string"}, {"minLength", 1}}; break;
    case ValueType::integer:
      out = {{"type", "integer"}, {"minimum", field.min}, {"maximum", field.max}};
      if (field.multiple_of != 1) out["multipleOf"] = field.multiple_of;
      break;
    case ValueType::real:
      out = {{"type", "number"},
             {field.above_min ? "exclusiveMinimum" : "minimum", field.real_min},
             {"maximum", field.real_max}};
      break;
    case ValueType::choice:
      out["enum"] = Json::array();
      for (const Word& word : field.words) {
        out["enum"].push_back(word.name);
        for (const std::string& alias : word.aliases) out["enum"].push_back(alias);
      }
      break;
  }
  const std::string standard = default_text(field);
  out["description"] = field.help + (standard.empty() || field.path == "workload.kind" ? "" : "; default " + standard);
  return out;
}

Json object_schema(Json properties) {
  return {{"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}};
}

/// Properties of the fields directly inside `section` that pass the filter.
template <typename Keep>
Json properties_of(const std::string& section, Keep&& keep) {
  Json out = Json::object();
  for (const Field& field : fields()) {
    const std::string prefix = section + ".";
    const bool inside = field.path.starts_with(prefix) && field.path.find('.', prefix.size()) == std::string::npos;
    if (inside && keep(field)) out[field.path.substr(prefix.size())] = field_schema(field);
  }
  return out;
}

/// One alternative for each distribution: its kind, and the keys that only it has.
Json distribution_schema() {
  const std::string section = "workload.distribution";
  Json alternatives = Json::array();
  for (const Word& word : fields_at(section + ".kind")[0]->words) {
    Json properties =
        properties_of(section, [&](const Field& f) { return f.distribution.empty() || f.distribution == word.name; });
    Json& legal = properties["kind"]["enum"];
    legal = Json::array({word.name});
    for (const std::string& alias : word.aliases) legal.push_back(alias);
    alternatives.push_back(object_schema(std::move(properties)));
  }
  return {{"description", "where slots come from"}, {"anyOf", std::move(alternatives)}};
}

Json workload_schema(WorkloadKind kind) {
  Json properties = properties_of("workload", [&](const Field& field) { return applies(field, kind); });
  properties["kind"]["enum"] = Json::array({kind == WorkloadKind::sparse ? "sparse" : "dense"});
  if (kind == WorkloadKind::sparse) properties["distribution"] = {{"$ref", "#/$defs/distribution"}};
  return object_schema(std::move(properties));
}

Json schema_of_check(const CheckOption& option) {
  Json value;
  switch (option.type) {
    case CheckOption::Type::none: break;
    case CheckOption::Type::boolean: value = {{"type", "boolean"}}; break;
    case CheckOption::Type::integer:
      value = {{"type", "integer"}, {"minimum", option.min}, {"maximum", option.max}};
      break;
    case CheckOption::Type::word_list:
      value = {{"type", "array"}, {"minItems", 1}, {"uniqueItems", true}, {"items", {{"enum", option.words}}}};
  }
  Json options = Json::object();
  if (option.type != CheckOption::Type::none) options[option.name] = std::move(value);
  Json named = object_schema(Json{{option.check, object_schema(std::move(options))}});
  named["required"] = Json::array({option.check});
  named["description"] = option.help;
  return named;
}

Json checks_schema() {
  Json names = Json::array();
  Json alternatives = Json::array();
  for (const CheckOption& option : check_options()) names.push_back(option.check);
  alternatives.push_back({{"enum", names}});
  for (const CheckOption& option : check_options()) alternatives.push_back(schema_of_check(option));
  return {{"type", "array"}, {"items", {{"anyOf", std::move(alternatives)}}}};
}

/// Every path with a list of its legal values.
Json swept_paths() {
  Json out = Json::object();
  for (const std::string& path : sweepable_paths()) {
    Json item;
    const auto candidates = fields_at(path);
    if (candidates.size() == 1) {
      item = field_schema(*candidates[0]);
    } else {
      for (const Field* field : candidates) item["anyOf"].push_back(field_schema(*field));
    }
    out[path] = {{"type", "array"}, {"minItems", 1}, {"uniqueItems", true}, {"items", std::move(item)}};
  }
  return out;
}

Json sweep_schema() {
  Json linked = Json::object();
  for (const std::string& path : sweepable_paths()) linked[path] = {{"$ref", "#/$defs/sweep/properties/" + path}};
  Json link = object_schema(std::move(linked));
  link["minProperties"] = 1;
  Json properties = swept_paths();
  properties["link"] = {{"description", "each object: lists of one length whose values go together"},
                        {"type", "array"},
                        {"items", std::move(link)}};
  return object_schema(std::move(properties));
}

Json name_schema(const std::string& description, const std::string& characters, int longest) {
  return {
      {"type", "string"}, {"maxLength", longest}, {"pattern", "^[" + characters + "]+$"}, {"description", description}};
}

/// The keys that the top level and every case share.
Json shared_properties() {
  Json out = Json::object();
  out["workload"] = {
      {"anyOf", Json::array({{{"$ref", "#/$defs/sparse_workload"}}, {{"$ref", "#/$defs/dense_workload"}}})}};
  for (const char* name : {"variants", "launch", "sweep", "checks", "timing"})
    out[name] = {{"$ref", fmt::format("#/$defs/{}", name)}};
  return out;
}

Json definitions() {
  const auto all = [](const Field&) { return true; };
  return {{"sparse_workload", workload_schema(WorkloadKind::sparse)},
          {"dense_workload", workload_schema(WorkloadKind::dense)},
          {"distribution", distribution_schema()},
          {"variants", object_schema(properties_of("variants", all))},
          {"launch", field_schema(*fields_at("launch")[0])},
          {"sweep", sweep_schema()},
          {"checks", checks_schema()},
          {"timing", object_schema(properties_of("timing", all))}};
}

}  // namespace
}  // namespace config

std::string config_schema_json() {
  using config::Json;
  Json case_properties{{"name", config::name_schema("part of the case's id", "A-Za-z0-9_.\\-/=*+", 2000)}};
  case_properties.update(config::shared_properties());
  Json one_case = config::object_schema(std::move(case_properties));
  one_case["required"] = Json::array({"name"});

  Json properties{{"schema", {{"const", 1}}},
                  {"name", config::name_schema("the first part of every case id", "A-Za-z0-9_.\\-", 200)}};
  properties.update(config::shared_properties());
  properties["cases"] = {{"description", "each inherits the top level"},
                         {"type", "array"},
                         {"minItems", 1},
                         {"items", std::move(one_case)}};

  Json out{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
           {"title", "sdm-bench config"},
           {"description",
            "Generated from the table of config keys. Combinations of values are checked by sdm-bench check."}};
  out.update(config::object_schema(std::move(properties)));
  out["required"] = Json::array({"schema", "name"});
  out["$defs"] = config::definitions();
  return out.dump(1) + "\n";
}

}  // namespace sdm
