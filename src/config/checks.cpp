#include "config/checks.h"

#include <algorithm>
#include <cmath>

#include "config/settings.h"

namespace sdm::config {
namespace {

std::vector<CheckOption> make_options() {
  using Kind = CheckSpec::Kind;
  using Type = CheckOption::Type;
  constexpr std::int64_t kMaxRuns = 10'000;
  const auto runs = [](CheckSpec& spec, const JsonNode& node) {
    const auto* real = std::get_if<double>(&node.scalar);
    spec.runs =
        static_cast<std::int32_t>(real ? static_cast<std::int64_t>(*real) : std::get<std::int64_t>(node.scalar));
  };
  return {
      {Kind::replay,
       "replay",
       "lockstep",
       Type::boolean,
       0,
       0,
       {},
       "device bits equal replay bits; lockstep: compared after every stage, the first difference is named",
       [](CheckSpec& spec, const JsonNode& node) { spec.lockstep = std::get<bool>(node.scalar); }},
      {Kind::oracle,
       "oracle",
       "round_bank",
       Type::boolean,
       0,
       0,
       {},
       "agreement with the fp64 oracle within derived bounds; round_bank: it rounds rows at chunk ends too",
       [](CheckSpec& spec, const JsonNode& node) { spec.round_bank = std::get<bool>(node.scalar); }},
      {Kind::repeat,
       "repeat",
       "runs",
       Type::integer,
       2,
       kMaxRuns,
       {},
       "equal bits over that many runs from restored state",
       runs},
      {Kind::agree,
       "agree",
       "ladder",
       Type::boolean,
       0,
       0,
       {},
       "all exact variants of a stage give equal bits; ladder: each also repeated, with other geometries and launch "
       "modes",
       [](CheckSpec& spec, const JsonNode& node) { spec.ladder = std::get<bool>(node.scalar); }},
      {Kind::invariance,
       "invariance",
       "axes",
       Type::word_list,
       0,
       0,
       {"chunk", "batch", "stream_order", "threads", "geometry", "launch"},
       "what must not change bits does not (chunk size: within a bound); no axes: all that apply",
       [](CheckSpec& spec, const JsonNode& node) {
         for (const JsonNode& item : node.items) spec.axes.push_back(std::get<std::string>(item.scalar));
       }},
      {Kind::bank_restored,
       "bank_restored",
       "",
       Type::none,
       0,
       0,
       {},
       "after the backward the bank is the initial one again",
       nullptr},
      {Kind::guards,
       "guards",
       "",
       Type::none,
       0,
       0,
       {},
       "guard bytes intact, poisoned outputs fully written, inputs unchanged",
       nullptr},
      {Kind::disturbed,
       "disturbed",
       "runs",
       Type::integer,
       2,
       kMaxRuns,
       {},
       "as repeat, while other work loads the device",
       runs},
      {Kind::half_device,
       "half_device",
       "runs",
       Type::integer,
       1,
       kMaxRuns,
       {},
       "as repeat, while half of the GPU's multiprocessors are taken away",
       runs},
      {Kind::fragmented,
       "fragmented",
       "",
       Type::none,
       0,
       0,
       {},
       "equal bits at another place of a fragmented memory",
       nullptr},
      {Kind::process, "process", "", Type::none, 0, 0, {}, "equal bits in a fresh process", nullptr},
      {Kind::poison,
       "poison",
       "",
       Type::none,
       0,
       0,
       {},
       "equal bits whatever outputs and scratch memory held before",
       nullptr},
      {Kind::baselines,
       "baselines",
       "runs",
       Type::integer,
       2,
       kMaxRuns,
       {},
       "variants without a fixed order are seen to vary where slots are hot; their times are the price of order",
       runs},
  };
}

std::vector<std::string> check_names() {
  std::vector<std::string> names;
  for (const CheckOption& option : check_options()) names.push_back(option.check);
  return names;
}

bool legal_integer(const CheckOption& option, const Scalar& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer >= option.min && *integer <= option.max;
  const auto* real = std::get_if<double>(&value);
  return real && *real == std::trunc(*real) && *real >= static_cast<double>(option.min) &&
         *real <= static_cast<double>(option.max);
}

bool legal_words(const CheckOption& option, const JsonNode& node) {
  std::vector<std::string> seen;
  for (const JsonNode& item : node.items) {
    const auto* word = std::get_if<std::string>(&item.scalar);
    if (item.kind != JsonNode::Kind::scalar || !word) return false;
    if (std::find(option.words.begin(), option.words.end(), *word) == option.words.end()) return false;
    if (std::find(seen.begin(), seen.end(), *word) != seen.end()) return false;
    seen.push_back(*word);
  }
  return node.kind == JsonNode::Kind::array && !node.items.empty();
}

bool legal_value(const CheckOption& option, const JsonNode& node) {
  if (option.type == CheckOption::Type::word_list) return legal_words(option, node);
  if (node.kind != JsonNode::Kind::scalar) return false;
  if (option.type == CheckOption::Type::boolean) return std::holds_alternative<bool>(node.scalar);
  return legal_integer(option, node.scalar);
}

const CheckOption* find_check(const std::string& name) {
  for (const CheckOption& option : check_options()) {
    if (option.check == name) return &option;
  }
  return nullptr;
}

void read_options(const JsonNode& node, const CheckOption& option, const Origin& origin, CheckSpec& spec,
                  Problems& problems) {
  if (node.kind != JsonNode::Kind::object) {
    problems.add(origin,
                 fmt::format("{} is {}; expected an object with the check's options", shown(node), kind_name(node)));
    return;
  }
  for (const JsonMember& member : node.members) {
    const Origin at{origin.file, member.value.at, origin.path + "." + member.key};
    if (option.type == CheckOption::Type::none) {
      problems.add(at, fmt::format("the check {} has no options", option.check));
    } else if (member.key != option.name) {
      report_unknown_key(member.key, at, {option.name}, problems);
    } else if (!legal_value(option, member.value)) {
      problems.add(at, fmt::format("{} is not legal; legal: {}", shown(member.value), legal_text(option)));
    } else {
      option.set(spec, member.value);
    }
  }
}

std::optional<CheckSpec> read_check(const JsonNode& node, const Origin& origin, Problems& problems) {
  const auto* word = std::get_if<std::string>(&node.scalar);
  const bool object = node.kind == JsonNode::Kind::object && node.members.size() == 1;
  if (!(node.kind == JsonNode::Kind::scalar && word) && !object) {
    problems.add(
        origin,
        fmt::format("{} is no check; legal: a name or an object with one key, the name, and its options; names: {}",
                    shown(node), joined(check_names())));
    return std::nullopt;
  }
  const std::string& name = object ? node.members[0].key : *word;
  const CheckOption* option = find_check(name);
  if (!option) {
    problems.add(origin, fmt::format("unknown check {}; legal: {}{}", in_quotes(name), joined(check_names()),
                                     did_you_mean(name, check_names())));
    return std::nullopt;
  }
  CheckSpec spec;
  spec.kind = option->kind;
  if (object)
    read_options(node.members[0].value, *option, {origin.file, node.members[0].at, origin.path + "." + name}, spec,
                 problems);
  return spec;
}

}  // namespace

const std::vector<CheckOption>& check_options() {
  static const std::vector<CheckOption> table = make_options();
  return table;
}

std::string legal_text(const CheckOption& option) {
  switch (option.type) {
    case CheckOption::Type::none: return "no options";
    case CheckOption::Type::boolean: return "true or false";
    case CheckOption::Type::integer: return fmt::format("an integer from {} to {}", option.min, option.max);
    case CheckOption::Type::word_list: break;
  }
  return "a list of at least one of " + joined(option.words) + ", each at most once";
}

std::vector<CheckSpec> read_checks(const JsonNode& node, const Origin& origin, Problems& problems) {
  std::vector<CheckSpec> out;
  if (node.kind != JsonNode::Kind::array) {
    problems.add(origin, fmt::format("{} is {}; expected a list of checks", shown(node), kind_name(node)));
    return out;
  }
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const Origin at{origin.file, node.items[i].at, fmt::format("{}[{}]", origin.path, i)};
    const auto spec = read_check(node.items[i], at, problems);
    if (!spec) continue;
    const bool twice =
        std::any_of(out.begin(), out.end(), [&](const CheckSpec& other) { return other.kind == spec->kind; });
    if (twice) problems.add(at, fmt::format("the check {} stands twice", shown(node.items[i])));
    out.push_back(*spec);
  }
  return out;
}

}  // namespace sdm::config
