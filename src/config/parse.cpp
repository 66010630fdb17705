#include "config/parse.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>

#include "config/checks.h"

namespace sdm {
namespace config {
namespace {

/// A config's name goes into file names; a case's may be the long id of a swept case.
constexpr std::size_t longest_name(bool of_case) { return of_case ? 2000 : 200; }

const std::vector<std::string> kSharedKeys = {"workload", "variants", "launch", "sweep", "checks", "timing"};

std::vector<std::string> with_shared(std::vector<std::string> keys, const std::vector<std::string>& more = {}) {
  keys.insert(keys.end(), kSharedKeys.begin(), kSharedKeys.end());
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

/// Names become parts of case ids and of file names. A case's name may look like the id of a swept case.
bool legal_name(std::string_view name, bool of_case) {
  const auto legal = [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.' ||
           (of_case && (c == '/' || c == '=' || c == '*' || c == '+'));
  };
  return !name.empty() && name.size() <= longest_name(of_case) && std::all_of(name.begin(), name.end(), legal);
}

std::string read_name(const JsonNode& object, const Origin& parent, bool of_case, Problems& problems) {
  const std::string path = parent.path.empty() ? "name" : parent.path + ".name";
  const std::string legal =
      fmt::format("a text of 1 to {} letters, digits and _ - .{}", longest_name(of_case), of_case ? " / = * +" : "");
  const JsonNode* node = object.find("name");
  if (!node) {
    problems.add({parent.file, parent.at, path}, "missing; legal: " + legal);
    return "";
  }
  const auto* name = std::get_if<std::string>(&node->scalar);
  if (node->kind == JsonNode::Kind::scalar && name && legal_name(*name, of_case)) return *name;
  problems.add({parent.file, node->at, path}, fmt::format("{} is not legal; legal: {}", shown(*node), legal));
  return "";
}

void check_schema(const JsonNode& top, const std::string& file, Problems& problems) {
  const JsonNode* node = top.find("schema");
  if (!node) {
    problems.add({file, top.at, "schema"}, "missing; legal: 1");
  } else if (node->kind != JsonNode::Kind::scalar ||
             (node->scalar != Scalar(std::int64_t{1}) && node->scalar != Scalar(1.0))) {
    problems.add({file, node->at, "schema"},
                 fmt::format("{} is no schema version that this program reads; legal: 1", shown(*node)));
  }
}

/// The shared keys of one object. `kind`: what holds unless the section chooses another.
Section read_section(const JsonNode& object, const Origin& origin, std::optional<WorkloadKind> kind,
                     const std::vector<std::string>& legal, Problems& problems) {
  Section out;
  out.origin = origin;
  const std::string prefix = origin.path.empty() ? "" : origin.path + ".";
  const auto child = [&](const std::string& key, const JsonNode& node) {
    return Origin{origin.file, node.at, prefix + key};
  };
  if (const JsonNode* workload = object.find("workload")) {
    read_settings(*workload, "workload", child("workload", *workload), kind, out.settings, problems);
    const auto own = out.settings.find("workload.kind");
    if (own != out.settings.end()) kind = kind_of(out.settings);
  }
  for (const JsonMember& member : object.members) {
    const std::string& key = member.key;
    const Origin at = child(key, member.value);
    if (key == "variants" || key == "launch" || key == "timing") {
      read_settings(member.value, key, at, kind, out.settings, problems);
      out.timed = out.timed || key == "timing";
    } else if (key == "checks") {
      out.checks = read_checks(member.value, at, problems);
    } else if (key == "sweep") {
      out.sweep = read_sweep(member.value, at, kind, problems);
    } else if (std::find(legal.begin(), legal.end(), key) == legal.end()) {
      report_unknown_key(key, {origin.file, member.at, prefix + key}, legal, problems);
    }
  }
  return out;
}

void read_cases(const JsonNode& list, ConfigFile& config, Problems& problems) {
  const Origin origin{config.file, list.at, "cases"};
  if (list.kind != JsonNode::Kind::array || list.items.empty()) {
    problems.add(origin, fmt::format("{} is {}; expected a list of at least one case", shown(list),
                                     list.kind == JsonNode::Kind::array ? "empty" : kind_name(list)));
    return;
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const JsonNode& item = list.items[i];
    const Origin at{config.file, item.at, fmt::format("cases[{}]", i)};
    if (item.kind != JsonNode::Kind::object) {
      problems.add(at, fmt::format("{} is {}; expected an object with a name", shown(item), kind_name(item)));
      continue;
    }
    Section section = read_section(item, at, kind_of(config.top.settings), with_shared({"name"}), problems);
    section.name = read_name(item, at, true, problems);
    if (!section.name.empty() && !names.insert(section.name).second) {
      problems.add({at.file, item.find("name")->at, at.path + ".name"},
                   fmt::format("{} names two cases", in_quotes(section.name)));
    }
    config.cases.push_back(std::move(section));
  }
}

}  // namespace

std::optional<ConfigFile> read_config(std::string_view text, const std::string& file, Problems& problems) {
  const std::optional<JsonNode> top = read_json(text, file, problems);
  if (!top) return std::nullopt;
  if (top->kind != JsonNode::Kind::object) {
    problems.add({file, top->at, ""}, fmt::format("{} is {}; a config is an object", shown(*top), kind_name(*top)));
    return std::nullopt;
  }
  ConfigFile config;
  config.file = file;
  check_schema(*top, file, problems);
  const Origin origin{file, top->at, ""};
  config.top = read_section(*top, origin, std::nullopt, with_shared({"schema", "name"}, {"cases"}), problems);
  config.top.name = read_name(*top, origin, false, problems);
  if (const JsonNode* cases = top->find("cases")) read_cases(*cases, config, problems);
  return config;
}

std::optional<std::string> read_file(const std::string& path, Problems& problems) {
  const std::size_t limit = JsonLimits{}.bytes;
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& stream = path == "-" ? std::cin : file;
  std::string bytes(limit + 1, '\0');  // one more than is read: the reader then says that the file is too long
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if ((path != "-" && !file.is_open()) || stream.bad() || (stream.fail() && !stream.eof())) {
    problems.add({path, {}, ""}, "cannot be read; expected a config file (JSON)");
    return std::nullopt;
  }
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  return bytes;
}

}  // namespace config

ConfigFile parse_config(std::string_view text, const std::string& file) {
  config::Problems problems;
  std::optional<ConfigFile> config = config::read_config(text, file, problems);
  problems.raise();
  return std::move(*config);
}

ConfigFile load_config(const std::string& path) {
  config::Problems problems;
  const std::optional<std::string> text = config::read_file(path, problems);
  problems.raise();
  return parse_config(*text, path == "-" ? "stdin" : path);
}

}  // namespace sdm
