#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>

#include "config/checks.h"
#include "config/fields.h"
#include "config_support.h"

namespace sdm {
namespace {

using Json = nlohmann::json;
using config::Field;
using config::ValueType;

std::string source(const std::string& path) { return test::read_text(std::string(SDM_SOURCE_DIR) + "/" + path); }

/// The part of JSON schema 2020-12 that configs/schema.json uses. An unknown keyword fails the test.
class Validator {
 public:
  explicit Validator(Json schema) : root_(std::move(schema)) {}
  bool accepts(const Json& value) const { return accepts(root_, value); }

 private:
  bool accepts(const Json& schema, const Json& value) const {
    return std::all_of(schema.items().begin(), schema.items().end(),
                       [&](const auto& rule) { return holds(rule.key(), rule.value(), schema, value); });
  }

  bool holds(const std::string& key, const Json& rule, const Json& schema, const Json& value) const {
    if (key == "$schema" || key == "title" || key == "description" || key == "$defs") return true;
    if (key == "$ref") return accepts(root_.at(Json::json_pointer(rule.get<std::string>().substr(1))), value);
    if (key == "type") return has_type(rule, value);
    if (key == "const") return value == rule;
    if (key == "enum") return std::find(rule.begin(), rule.end(), value) != rule.end();
    if (key == "anyOf") return std::any_of(rule.begin(), rule.end(), [&](const Json& s) { return accepts(s, value); });
    if (value.is_number()) return holds_number(key, rule, value);
    if (value.is_string()) return holds_text(key, rule, value);
    if (value.is_array()) return holds_list(key, rule, value);
    if (value.is_object()) return holds_object(key, rule, schema, value);
    return true;
  }

  static bool has_type(const std::string& type, const Json& value) {
    if (type == "integer") return value.is_number() && std::floor(value.get<double>()) == value.get<double>();
    return type == "number" ? value.is_number() : type == value.type_name();
  }
  static bool holds_number(const std::string& key, const Json& rule, const Json& value) {
    if (key == "minimum") return value >= rule;
    if (key == "exclusiveMinimum") return value > rule;
    if (key == "maximum") return value <= rule;
    if (key == "multipleOf") return std::fmod(value.get<double>(), rule.get<double>()) == 0;
    return known(key);
  }
  static bool holds_text(const std::string& key, const Json& rule, const Json& value) {
    const auto text = value.get<std::string>();
    if (key == "minLength") return text.size() >= rule;
    if (key == "maxLength") return text.size() <= rule;
    if (key == "pattern") return std::regex_search(text, std::regex(rule.get<std::string>()));
    return known(key);
  }
  bool holds_list(const std::string& key, const Json& rule, const Json& value) const {
    if (key == "minItems") return value.size() >= rule;
    if (key == "uniqueItems") return std::set<Json>(value.begin(), value.end()).size() == value.size();
    if (key == "items")
      return std::all_of(value.begin(), value.end(), [&](const Json& item) { return accepts(rule, item); });
    return known(key);
  }
  bool holds_object(const std::string& key, const Json& rule, const Json& schema, const Json& value) const {
    if (key == "minProperties") return value.size() >= rule;
    if (key == "required")
      return std::all_of(rule.begin(), rule.end(), [&](const Json& k) { return value.contains(k.get<std::string>()); });
    const auto items = value.items();
    if (key == "properties") {
      return std::all_of(items.begin(), items.end(), [&](const auto& m) {
        return !rule.contains(m.key()) || accepts(rule.at(m.key()), m.value());
      });
    }
    if (key == "additionalProperties") {
      return std::all_of(items.begin(), items.end(),
                         [&](const auto& m) { return schema.at("properties").contains(m.key()); });
    }
    return known(key);
  }
  static bool known(const std::string& key) {
    const std::set<std::string> others = {
        "minimum",  "exclusiveMinimum", "maximum", "multipleOf",    "minLength", "maxLength",  "pattern",
        "minItems", "uniqueItems",      "items",   "minProperties", "required",  "properties", "additionalProperties"};
    if (!others.contains(key))
      ADD_FAILURE() << "the schema uses the keyword " << key << ", which this test does not know";
    return true;
  }

  Json root_;
};

TEST(ConfigSchema, PublishedFileIsTheTable) {
  if (source("configs/schema.json") == config_schema_json()) return;
  const std::string path = testing::TempDir() + "schema.json";
  std::ofstream(path) << config_schema_json();
  FAIL() << "the table of keys changed; if that was meant: cp " << path << " configs/schema.json";
}

/// Where the schema describes a field: object properties by the pieces of its path, in one of the named definitions.
const Json& described(const Json& schema, const Field& field) {
  const Json& defs = schema.at("$defs");
  const std::string key = field.path.substr(field.path.rfind('.') + 1);
  if (field.path == "launch") return defs.at("launch");
  if (field.path.starts_with("workload.distribution.")) {
    for (const Json& alternative : defs.at("distribution").at("anyOf")) {
      const Json& kinds = alternative.at("properties").at("kind").at("enum");
      if (field.distribution.empty() || kinds[0] == field.distribution) return alternative.at("properties").at(key);
    }
  }
  const std::string section = field.path.substr(0, field.path.find('.'));
  const bool dense = field.scope == config::Scope::dense;
  return defs.at(section == "workload" ? (dense ? "dense_workload" : "sparse_workload") : section)
      .at("properties")
      .at(key);
}

TEST(ConfigSchema, EveryFieldIsDescribedAsItIsRead) {
  const Json schema = Json::parse(source("configs/schema.json"));
  for (const Field& field : config::fields()) {
    SCOPED_TRACE(field.path);
    const Json& found = described(schema, field);
    const Json& swept = schema.at("$defs").at("sweep").at("properties");
    EXPECT_TRUE(swept.contains(field.path));
    EXPECT_TRUE(swept.at("link").at("items").at("properties").contains(field.path));
    if (field.path == "workload.kind" || field.path == "workload.distribution.kind")
      continue;  // one word an alternative
    switch (field.type) {
      case ValueType::boolean: EXPECT_EQ(found.at("type"), "boolean"); break;
      case ValueType::text: EXPECT_EQ(found.at("type"), "string"); break;
      case ValueType::integer:
        EXPECT_EQ(found.at("type"), "integer");
        EXPECT_EQ(found.at("minimum"), field.min);
        EXPECT_EQ(found.at("maximum"), field.max);
        EXPECT_EQ(found.value("multipleOf", std::uint64_t{1}), field.multiple_of);
        break;
      case ValueType::real:
        EXPECT_EQ(found.at("type"), "number");
        EXPECT_EQ(found.at(field.above_min ? "exclusiveMinimum" : "minimum"), field.real_min);
        EXPECT_EQ(found.at("maximum"), field.real_max);
        break;
      case ValueType::choice:
        for (const config::Word& word : field.words)
          EXPECT_NE(std::find(found.at("enum").begin(), found.at("enum").end(), word.name), found.at("enum").end());
    }
  }
}

TEST(ConfigSchema, TheSchemaDescribesNothingElse) {
  const Json defs = Json::parse(source("configs/schema.json")).at("$defs");
  const auto expect_fields = [](const Json& object, const std::string& section) {
    for (const auto& member : object.at("properties").items()) {
      const std::string path = section + member.key();
      EXPECT_TRUE(!config::fields_at(path).empty() || config::is_section(path) || path == "link") << path;
    }
  };
  expect_fields(defs.at("sparse_workload"), "workload.");
  expect_fields(defs.at("dense_workload"), "workload.");
  for (const Json& alternative : defs.at("distribution").at("anyOf"))
    expect_fields(alternative, "workload.distribution.");
  expect_fields(defs.at("variants"), "variants.");
  expect_fields(defs.at("timing"), "timing.");
  expect_fields(defs.at("sweep"), "");
  EXPECT_EQ(defs.at("checks").at("items").at("anyOf").size(), config::check_options().size() + 1);
}

TEST(ConfigSchema, ReadmeExplainsEveryKey) {
  const std::string readme = source("configs/README.md");
  for (const Field& field : config::fields()) {
    const std::string standard = field.path == "workload.kind" ? "" : config::default_text(field);
    const std::string row =
        fmt::format("| `{}` | {} | {} |", field.path, legal_text(field), standard.empty() ? "" : "`" + standard + "`");
    EXPECT_NE(readme.find(row), std::string::npos) << row;
  }
  for (const config::CheckOption& option : config::check_options()) {
    const std::string row = fmt::format("| `{}` | {} | {} |", option.check,
                                        option.name.empty() ? "" : "`" + option.name + "`", legal_text(option));
    EXPECT_NE(readme.find(row), std::string::npos) << row;
  }
}

TEST(ConfigSchema, ShippedConfigsAreLegal) {
  const Validator validator(Json::parse(source("configs/schema.json")));
  for (const std::string name :
       {"quickstart", "smoke", "correctness", "dense", "h200_perf", "launch_modes", "launch_streams", "launch_rule"}) {
    const std::string text = source("configs/" + name + ".json");
    EXPECT_TRUE(validator.accepts(Json::parse(text, nullptr, true, true))) << name;
    EXPECT_EQ(test::problems_of(text), "") << name;
    EXPECT_EQ(parse_config(text, name).top.name, name);
  }
}

/// Draws configs from the table: mostly legal values, now and then something else.
class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  Json config() {
    Json out = {{"schema", 1}, {"name", "random"}};
    const bool dense = chance(3);
    out["workload"] = workload(dense);
    if (chance(2)) out["variants"] = section("variants.", config::WorkloadKind::sparse, "");
    if (chance(2)) out["timing"] = section("timing.", config::WorkloadKind::sparse, "");
    if (chance(2)) out["launch"] = value(*config::fields_at("launch")[0]);
    if (chance(2)) out["sweep"] = sweep(dense);
    if (chance(2)) out["checks"] = checks();
    if (chance(3))
      out["cases"] = Json::array({Json{{"name", "one"}, {"workload", workload(dense)}, {"checks", checks()}}});
    if (chance(6)) spoil(out);
    return out;
  }

 private:
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  bool chance(std::size_t n) { return below(n) == 0; }

  Json odd_value() {
    const Json all[] = {nullptr,
                        true,
                        0,
                        -1,
                        1,
                        2,
                        63,
                        64,
                        0.5,
                        64.0,
                        256,
                        257,
                        1e300,
                        "",
                        "bf16",
                        "x",
                        Json::array(),
                        Json::object(),
                        Json::array({1})};
    return all[below(std::size(all))];
  }

  Json value(const Field& field) {
    if (chance(40)) return odd_value();
    switch (field.type) {
      case ValueType::boolean: return chance(2);
      case ValueType::text: return "some";
      case ValueType::real:
        return chance(2) ? Json(field.real_max) : Json(field.real_max / static_cast<double>(1 + below(9)));
      case ValueType::choice: {
        const config::Word& word = field.words[below(field.words.size())];
        return word.aliases.empty() || chance(2) ? word.name : word.aliases[0];
      }
      case ValueType::integer: break;
    }
    const std::uint64_t edges[] = {static_cast<std::uint64_t>(field.min),
                                   static_cast<std::uint64_t>(field.min) + field.multiple_of, 64, 128,
                                   field.max - field.max % field.multiple_of};
    const std::uint64_t edge = edges[below(std::size(edges))];
    if (chance(20)) return edge + 1;
    if (chance(20)) return static_cast<std::int64_t>(field.min) - 1;
    return edge;
  }

  Json section(const std::string& prefix, config::WorkloadKind kind, const std::string& distribution) {
    Json out = Json::object();
    for (const Field& field : config::fields()) {
      const std::string key = field.path.substr(std::min(prefix.size(), field.path.size()));
      if (!field.path.starts_with(prefix) || key.find('.') != std::string::npos || key == "kind" || !chance(3))
        continue;
      if (applies(field, kind, distribution)) out[key] = value(field);
    }
    return out;
  }

  Json workload(bool dense) {
    const auto kind = dense ? config::WorkloadKind::dense : config::WorkloadKind::sparse;
    Json out = section("workload.", kind, "");
    out["kind"] = dense ? "dense" : "sparse";
    if (dense || chance(2)) return out;
    const Json word = value(*config::fields_at("workload.distribution.kind")[0]);
    out["distribution"] = section("workload.distribution.", kind, word.is_string() ? word.get<std::string>() : "");
    out["distribution"]["kind"] = word;
    return out;
  }

  Json sweep(bool dense) {
    Json out = Json::object();
    for (int i = 0; i < 3; ++i) {
      const Field& field = config::fields()[below(config::fields().size())];
      if (config::fields_at(field.path).size() > 1)
        continue;  // the schema does not know for which kind a list is meant
      const bool own = applies(field, dense ? config::WorkloadKind::dense : config::WorkloadKind::sparse);
      if (field.path != "workload.kind" && own && !field.path.starts_with("workload.distribution"))
        out[field.path] = Json::array({value(field)});
    }
    return out;
  }

  Json checks() {
    Json out = Json::array();
    for (const config::CheckOption& option : config::check_options()) {
      if (!chance(3)) continue;
      if (option.name.empty() || chance(2)) {
        out.push_back(chance(30) ? odd_value() : Json(option.check));
      } else {
        const Json legal = option.type == config::CheckOption::Type::boolean ? Json(true)
                           : option.type == config::CheckOption::Type::integer
                               ? Json(option.min + static_cast<std::int64_t>(below(3)))
                               : Json(option.words);
        out.push_back(
            Json{{option.check, Json{{chance(30) ? "other" : option.name, chance(10) ? odd_value() : legal}}}});
      }
    }
    return out;
  }

  /// Something wrong, or at least odd, at the top.
  void spoil(Json& out) {
    const std::string keys[] = {"schema", "name",   "workload", "variants", "launch",
                                "sweep",  "checks", "timing",   "cases",    "other"};
    const std::string& key = keys[below(std::size(keys))];
    if (chance(3)) {
      out.erase(key);
    } else if (chance(2) && out.contains(key) && out[key].is_object()) {
      out[key]["other"] = odd_value();
    } else {
      out[key] = odd_value();
    }
  }

  std::mt19937 random_;
};

/// The parser and the schema say the same of single values and keys. Combinations are the parser's alone, so only
/// parse_config is asked, which judges none.
TEST(ConfigSchema, ParserAndSchemaAgreeOnRandomConfigs) {
  const unsigned seed = 77;
  Generator generator(seed);
  const Validator validator(Json::parse(source("configs/schema.json")));
  int legal = 0;
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds; ++round) {
    const Json config = generator.config();
    const bool by_schema = validator.accepts(Json::parse(config.dump()));  // numbers with the signs of parsed ones
    std::string problems;
    try {
      parse_config(config.dump(), "x.json");
    } catch (const ConfigErrors& errors) {
      problems = errors.what();
    }
    ASSERT_EQ(problems.empty(), by_schema) << "seed " << seed << " round " << round << "\n"
                                           << config.dump(1) << "\n"
                                           << problems;
    legal += by_schema ? 1 : 0;
  }
  EXPECT_GT(legal, kRounds / 10);
  EXPECT_LT(legal, kRounds * 9 / 10);
}

}  // namespace
}  // namespace sdm
