#include "report/compare_rules.h"

#include <array>
#include <cmath>

#include "base/error.h"
#include "config/fields.h"
#include "config/located_json.h"

namespace sdm {
namespace {

using config::JsonMember;
using config::JsonNode;

struct MetricFacts {
  std::string_view name;
  Direction direction;
};
constexpr std::array<MetricFacts, kMetrics> kFacts = {{{"median_us", Direction::lower},
                                                       {"min_us", Direction::lower},
                                                       {"p95_us", Direction::lower},
                                                       {"host_us", Direction::lower},
                                                       {"bytes_per_second", Direction::higher},
                                                       {"roof_percent", Direction::higher},
                                                       {"peak_memory_bytes", Direction::lower}}};

const std::vector<std::string> kDirections = {"lower", "higher", "either", "off"};

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const MetricFacts& facts : kFacts) names.emplace_back(facts.name);
  return names;
}

std::vector<std::string> stage_names() {
  std::vector<std::string> names = {"prepare", "forward", "backward"};
  for (const std::string& key : config::variant_keys())
    if (key != "*") names.push_back(key);
  return names;
}

class Reader {
 public:
  Reader(const std::string& file, CompareRules& rules) : file_(file), rules_(rules) {}

  void read(std::string_view text) {
    const std::optional<JsonNode> root = config::read_json(text, file_, problems_);
    if (root && is_object(*root, "")) top(*root);
    problems_.raise();
  }

 private:
  void report(const config::Location& at, const std::string& path, std::string message) {
    problems_.add({file_, at, path}, std::move(message));
  }

  bool is_object(const JsonNode& node, const std::string& path) {
    if (node.kind == JsonNode::Kind::object) return true;
    report(node.at, path, fmt::format("is {}; legal: an object", config::kind_name(node)));
    return false;
  }

  void unknown(const JsonMember& member, const std::string& path, const std::vector<std::string>& legal) {
    report(member.at, path + member.key,
           fmt::format("unknown key {}; legal: {}{}", config::in_quotes(member.key), config::joined(legal),
                       config::did_you_mean(member.key, legal)));
  }

  void top(const JsonNode& root) {
    const std::vector<std::string> legal = {"schema", "metrics", "stages", "min_samples", "max_rel_iqr"};
    const JsonNode* schema = root.find("schema");
    if (!schema) report(root.at, "schema", "missing; legal: 1");
    for (const JsonMember& member : root.members) {
      if (member.key == "schema") {
        number(member.value, "schema", 1, 1);
      } else if (member.key == "metrics") {
        metrics(member.value, "metrics", rules_.metrics, {});
      } else if (member.key == "min_samples") {
        if (const auto value = number(member.value, "min_samples", 1, 1e6))
          rules_.min_samples = static_cast<std::size_t>(*value);
      } else if (member.key == "max_rel_iqr") {
        rules_.max_rel_iqr = number(member.value, "max_rel_iqr", 0, 1e6).value_or(0);
      } else if (member.key != "stages") {
        unknown(member, "", legal);
      }
    }
    // Last: a stage starts from the limits for all stages, wherever these stand in the file.
    if (const JsonNode* node = root.find("stages")) stages(*node);
  }

  void stages(const JsonNode& node) {
    if (!is_object(node, "stages")) return;
    const std::vector<std::string> legal = stage_names();
    for (const JsonMember& member : node.members) {
      if (std::find(legal.begin(), legal.end(), member.key) == legal.end())
        unknown(member, "stages.", legal);
      else
        metrics(member.value, "stages." + member.key, rules_.stages[member.key], rules_.metrics);
    }
  }

  void metrics(const JsonNode& node, const std::string& path, std::map<Metric, Limit>& out,
               const std::map<Metric, Limit>& inherited) {
    if (!is_object(node, path)) return;
    const std::vector<std::string> legal = metric_names();
    for (const JsonMember& member : node.members) {
      const auto found = std::find(legal.begin(), legal.end(), member.key);
      if (found == legal.end()) {
        unknown(member, path + ".", legal);
        continue;
      }
      const auto metric = static_cast<Metric>(found - legal.begin());
      if (metric == Metric::peak_memory_bytes && &out != &rules_.metrics) {
        report(member.at, path + "." + member.key, "is of a case, not of a stage; legal under metrics alone");
        continue;
      }
      Limit start{.direction = natural_direction(metric)};
      if (const auto known = out.find(metric); known != out.end()) start = known->second;
      if (const auto known = inherited.find(metric); known != inherited.end()) start = known->second;
      out[metric] = limit(member.value, path + "." + member.key, start);
    }
  }

  Limit limit(const JsonNode& node, const std::string& path, Limit out) {
    if (!is_object(node, path)) return out;
    const std::vector<std::string> legal = {"direction", "relative", "absolute"};
    for (const JsonMember& member : node.members) {
      const std::string at = path + "." + member.key;
      if (member.key == "direction")
        out.direction = direction(member.value, at);
      else if (member.key == "relative")
        out.relative = number(member.value, at, 0, 1e6).value_or(0);
      else if (member.key == "absolute")
        out.absolute = number(member.value, at, 0, 1e18).value_or(0);
      else
        unknown(member, path + ".", legal);
    }
    return out;
  }

  Direction direction(const JsonNode& node, const std::string& path) {
    const auto* word = std::get_if<std::string>(&node.scalar);
    const bool text = node.kind == JsonNode::Kind::scalar && word;
    if (text)
      for (std::size_t i = 0; i < kDirections.size(); ++i)
        if (*word == kDirections[i]) return static_cast<Direction>(i);
    report(node.at, path,
           fmt::format("{} is not legal; legal: one of {}{}", config::shown(node), config::joined(kDirections),
                       text ? config::did_you_mean(*word, kDirections) : ""));
    return Direction::off;
  }

  std::optional<double> number(const JsonNode& node, const std::string& path, double low, double high) {
    std::optional<double> value;
    if (node.kind == JsonNode::Kind::scalar) {
      if (const auto* i = std::get_if<std::int64_t>(&node.scalar)) value = static_cast<double>(*i);
      if (const auto* u = std::get_if<std::uint64_t>(&node.scalar)) value = static_cast<double>(*u);
      if (const auto* d = std::get_if<double>(&node.scalar)) value = *d;
    }
    if (value && *value >= low && *value <= high) return value;
    report(node.at, path,
           low == high ? fmt::format("{} is not legal; legal: {}", config::shown(node), low)
                       : fmt::format("{} is not legal; legal: a number from {} to {}", config::shown(node), low, high));
    return std::nullopt;
  }

  const std::string& file_;
  CompareRules& rules_;
  config::Problems problems_;
};

}  // namespace

std::string_view name_of(Metric metric) { return kFacts[static_cast<std::size_t>(metric)].name; }
Direction natural_direction(Metric metric) { return kFacts[static_cast<std::size_t>(metric)].direction; }

Limit CompareRules::limit(const std::string& stage, Metric metric) const {
  if (const auto named = stages.find(stage); named != stages.end())
    if (const auto found = named->second.find(metric); found != named->second.end()) return found->second;
  const auto found = metrics.find(metric);
  return found == metrics.end() ? Limit{} : found->second;
}

void read_thresholds(std::string_view text, const std::string& file, CompareRules& rules) {
  Reader(file, rules).read(text);
}

}  // namespace sdm
