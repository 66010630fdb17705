#include "config/settings.h"

#include <algorithm>

namespace sdm::config {
namespace {

const std::string* valid_text(const Layer& layer, const std::string& path) {
  const auto found = layer.find(path);
  return found != layer.end() && found->second.valid ? std::get_if<std::string>(&found->second.value) : nullptr;
}

/// Removes from `base` what the newly chosen word of `selector` does not have.
template <typename Keep>
void drop_on_change(Layer& base, const Layer& top, const std::string& selector, Keep&& keep) {
  const std::string* old_word = valid_text(base, selector);
  const std::string* new_word = valid_text(top, selector);
  if (!old_word || !new_word || *old_word == *new_word) return;
  std::erase_if(base, [&](const auto& entry) {
    const auto candidates = fields_at(entry.first);
    return std::none_of(candidates.begin(), candidates.end(),
                        [&](const Field* field) { return keep(*field, *new_word); });
  });
}

WorkloadKind kind_named(const std::string& word) {
  return word == "dense" ? WorkloadKind::dense : WorkloadKind::sparse;
}

std::string kind_word(WorkloadKind kind) { return kind == WorkloadKind::dense ? "dense" : "sparse"; }

}  // namespace

std::optional<WorkloadKind> kind_of(const Layer& layer) {
  const std::string* word = valid_text(layer, "workload.kind");
  return word ? std::optional(kind_named(*word)) : std::nullopt;
}

std::string distribution_of(const Layer& layer) {
  const std::string* word = valid_text(layer, "workload.distribution.kind");
  return word ? *word : "uniform";
}

void overlay(Layer& base, const Layer& top) {
  drop_on_change(base, top, "workload.kind",
                 [](const Field& field, const std::string& word) { return applies(field, kind_named(word)); });
  drop_on_change(base, top, "workload.distribution.kind", [](const Field& field, const std::string& word) {
    return field.distribution.empty() || field.distribution == word;
  });
  const bool sparse = kind_of(top).value_or(kind_of(base).value_or(WorkloadKind::sparse)) == WorkloadKind::sparse;
  if (sparse && top.contains("workload.streams")) {
    base.erase("workload.batch");
    base.erase("workload.heads");
  } else if (sparse && (top.contains("workload.batch") || top.contains("workload.heads"))) {
    base.erase("workload.streams");
  }
  for (const auto& [path, setting] : top) base.insert_or_assign(path, setting);
}

void report_unknown_key(const std::string& key, const Origin& origin, const std::vector<std::string>& legal,
                        Problems& problems) {
  if (problems.full()) return problems.add(origin, "");
  problems.add(origin,
               fmt::format("unknown key {}; legal: {}{}", in_quotes(key), joined(legal), did_you_mean(key, legal)));
}

Setting read_scalar(const JsonNode& node, const std::string& path, const Origin& origin,
                    std::optional<WorkloadKind> kind, Problems& problems) {
  std::vector<const Field*> candidates = fields_at(path);
  SDM_REQUIRE(!candidates.empty(), "no field {}", path);
  const bool known =
      std::any_of(candidates.begin(), candidates.end(), [&](const Field* f) { return !kind || applies(*f, *kind); });
  if (kind && known) std::erase_if(candidates, [&](const Field* f) { return !applies(*f, *kind); });
  if (node.kind == JsonNode::Kind::scalar) {
    for (const Field* field : candidates) {
      if (auto value = check_value(*field, node.scalar)) return {std::move(*value), origin, true};
    }
  }
  std::string legal;
  for (const Field* field : candidates) legal += (legal.empty() ? "" : ", or ") + legal_text(*field);
  std::string hint;
  if (node.kind == JsonNode::Kind::array)
    hint = fmt::format("; a list of values to try belongs in sweep: {{\"{}\": [...]}}", path);
  if (const auto* word = std::get_if<std::string>(&node.scalar); word && candidates[0]->type == ValueType::choice) {
    std::vector<std::string> words;
    for (const Word& legal_word : candidates[0]->words) words.push_back(legal_word.name);
    hint = did_you_mean(*word, words);
  }
  problems.add(origin, fmt::format("{} is {}; legal: {}{}", shown(node),
                                   node.kind == JsonNode::Kind::scalar ? "not legal" : std::string(kind_name(node)),
                                   legal, hint));
  return {{}, origin, false};
}

void read_settings(const JsonNode& node, const std::string& path, const Origin& origin,
                   std::optional<WorkloadKind> inherited, Layer& layer, Problems& problems) {
  if (!is_section(path)) {
    layer.insert_or_assign(path, read_scalar(node, path, origin, inherited, problems));
    return;
  }
  if (node.kind != JsonNode::Kind::object) {
    problems.add(origin, fmt::format("{} is {}; expected an object with keys of: {}", shown(node), kind_name(node),
                                     joined(keys_in(path, inherited))));
    return;
  }
  std::optional<WorkloadKind> kind = inherited;
  if (path == "workload") {  // its own kind decides the other keys, wherever it stands
    if (const JsonNode* word = node.find("kind")) {
      const auto* text = std::get_if<std::string>(&word->scalar);
      kind = text && (*text == "sparse" || *text == "dense") ? std::optional(kind_named(*text)) : std::nullopt;
    }
  }
  for (const JsonMember& member : node.members) {
    const std::string child = path + "." + member.key;
    const bool plain = member.key.find('.') == std::string::npos;
    const bool section = plain && is_section(child);
    const Origin child_origin{origin.file, section ? member.at : member.value.at, origin.path + "." + member.key};
    if (plain && (section || !fields_at(child).empty())) {
      read_settings(member.value, child, child_origin, kind, layer, problems);
    } else {
      report_unknown_key(member.key, {origin.file, member.at, child_origin.path}, keys_in(path, kind), problems);
    }
  }
  if (path == "workload" && kind) reject_foreign(layer, *kind, problems);
}

void reject_foreign(Layer& layer, WorkloadKind kind, Problems& problems) {
  for (auto& [path, setting] : layer) {
    const auto candidates = fields_at(path);
    const bool foreign =
        std::none_of(candidates.begin(), candidates.end(), [&](const Field* f) { return applies(*f, kind); });
    if (!foreign) continue;
    const std::string section = path.substr(0, path.rfind('.'));
    if (setting.valid) {
      const std::vector<std::string> keys = keys_in(is_section(section) ? section : "workload", kind);
      problems.add(setting.origin, fmt::format("a {} workload has no key {}; legal: {}", kind_word(kind),
                                               in_quotes(path.substr(path.rfind('.') + 1)), joined(keys)));
    }
    setting.valid = false;
  }
}

}  // namespace sdm::config
