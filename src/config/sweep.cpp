#include "config/sweep.h"

#include <algorithm>
#include <set>

namespace sdm::config {
namespace {

bool contains(const Sweep& sweep, const std::string& path) {
  return std::any_of(sweep.begin(), sweep.end(), [&](const SweepAxis& axis) {
    return std::find(axis.paths.begin(), axis.paths.end(), path) != axis.paths.end();
  });
}

/// Reads one `path: [values]` member into the axis, unless something about it is wrong.
void read_member(const JsonMember& member, const Origin& parent, std::optional<WorkloadKind> kind, const Sweep& others,
                 SweepAxis& axis, Problems& problems) {
  const Origin origin{parent.file, member.at, parent.path + "." + member.key};
  if (fields_at(member.key).empty() && problems.full()) return problems.add(origin, "");
  if (fields_at(member.key).empty()) {
    problems.add(origin,
                 fmt::format("{} is no path that can be swept{}; legal: link, and paths such as workload.chunk, "
                             "variants.write, launch, timing.l2",
                             in_quotes(member.key), did_you_mean(member.key, sweepable_paths())));
    return;
  }
  if (contains(others, member.key)) {
    problems.add(origin, fmt::format("{} is swept twice", member.key));
    return;
  }
  std::vector<Setting> values = read_values(member.value, member.key, origin, kind, problems);
  if (values.empty()) return;
  axis.paths.push_back(member.key);
  axis.values.push_back(std::move(values));
}

void read_link(const JsonNode& node, const Origin& origin, std::optional<WorkloadKind> kind, Sweep& sweep,
               Problems& problems) {
  if (node.kind != JsonNode::Kind::object || node.members.empty()) {
    problems.add(origin,
                 fmt::format("{} is {}; expected an object of lists that go together", shown(node), kind_name(node)));
    return;
  }
  SweepAxis axis;
  for (const JsonMember& member : node.members) read_member(member, origin, kind, sweep, axis, problems);
  for (std::size_t i = 1; i < axis.paths.size(); ++i) {
    if (axis.values[i].size() == axis.size()) continue;
    problems.add(origin, fmt::format("linked lists differ in length: {} has {} values, {} has {}", axis.paths[0],
                                     axis.size(), axis.paths[i], axis.values[i].size()));
    return;
  }
  if (!axis.paths.empty()) sweep.push_back(std::move(axis));
}

bool sweeps_kind(const JsonNode& node, const JsonNode* links) {
  const auto names_it = [](const JsonNode& object) { return object.find("workload.kind") != nullptr; };
  return names_it(node) || (links && std::any_of(links->items.begin(), links->items.end(), names_it));
}

/// The last `count` components of a path.
std::string tail(const std::string& path, std::size_t count) {
  std::size_t at = path.size();
  for (; count > 0 && at != std::string::npos && at > 0; --count) at = path.rfind('.', at - 1);
  return at == std::string::npos || count > 0 ? path : path.substr(at + 1);
}

std::string short_name(const Sweep& sweep, const std::string& path) {
  const std::size_t components = static_cast<std::size_t>(std::count(path.begin(), path.end(), '.')) + 1;
  for (std::size_t count = 1; count < components; ++count) {
    const std::string name = tail(path, count);
    const bool shared = std::any_of(sweep.begin(), sweep.end(), [&](const SweepAxis& axis) {
      return std::any_of(axis.paths.begin(), axis.paths.end(),
                         [&](const std::string& other) { return other != path && tail(other, count) == name; });
    });
    if (!shared) return name;
  }
  return path;
}

/// Calls `visit(path, setting)` for every path of the point, axes in order.
template <typename Visit>
void visit_point(const Sweep& sweep, std::size_t index, Visit&& visit) {
  std::vector<std::size_t> at(sweep.size());
  for (std::size_t i = sweep.size(); i-- > 0;) {
    at[i] = index % sweep[i].size();
    index /= sweep[i].size();
  }
  for (std::size_t i = 0; i < sweep.size(); ++i) {
    for (std::size_t p = 0; p < sweep[i].paths.size(); ++p) visit(sweep[i].paths[p], sweep[i].values[p][at[i]]);
  }
}

}  // namespace

std::vector<std::string> sweepable_paths() {
  std::vector<std::string> out;
  for (const Field& field : fields()) {
    if (std::find(out.begin(), out.end(), field.path) == out.end()) out.push_back(field.path);
  }
  return out;
}

std::vector<Setting> read_values(const JsonNode& list, const std::string& path, const Origin& origin,
                                 std::optional<WorkloadKind> kind, Problems& problems) {
  std::vector<Setting> out;
  if (list.kind != JsonNode::Kind::array || list.items.empty()) {
    problems.add(origin, fmt::format("{} is {}; expected a list of at least one value", shown(list),
                                     list.kind == JsonNode::Kind::array ? "empty" : kind_name(list)));
    return out;
  }
  std::set<Scalar> seen;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const Origin at{origin.file, list.items[i].at, fmt::format("{}[{}]", origin.path, i)};
    out.push_back(read_scalar(list.items[i], path, at, kind, problems));
    if (out.back().valid && !seen.insert(out.back().value).second) {
      problems.add(at, fmt::format("{} stands twice in the list; two cases would have one id", shown(list.items[i])));
    }
  }
  return out;
}

Sweep read_sweep(const JsonNode& node, const Origin& origin, std::optional<WorkloadKind> kind, Problems& problems) {
  Sweep sweep;
  if (node.kind != JsonNode::Kind::object) {
    problems.add(origin, fmt::format("{} is {}; expected an object of paths and lists", shown(node), kind_name(node)));
    return sweep;
  }
  const JsonNode* links = node.find("link");
  if (sweeps_kind(node, links)) kind.reset();  // then each case is held against the keys of its own kind, later
  for (const JsonMember& member : node.members) {
    if (&member.value == links) continue;
    SweepAxis axis;
    read_member(member, origin, kind, sweep, axis, problems);
    if (!axis.paths.empty()) sweep.push_back(std::move(axis));
  }
  if (!links) return sweep;
  const Origin link_origin{origin.file, links->at, origin.path + ".link"};
  if (links->kind != JsonNode::Kind::array) {
    problems.add(link_origin, fmt::format("{} is {}; expected a list of objects", shown(*links), kind_name(*links)));
    return sweep;
  }
  for (std::size_t i = 0; i < links->items.size(); ++i) {
    const Origin at{origin.file, links->items[i].at, fmt::format("{}[{}]", link_origin.path, i)};
    read_link(links->items[i], at, kind, sweep, problems);
  }
  return sweep;
}

void remove_path(Sweep& sweep, const std::string& path) {
  for (SweepAxis& axis : sweep) {
    for (std::size_t i = axis.paths.size(); i-- > 0;) {
      if (axis.paths[i] != path) continue;
      axis.paths.erase(axis.paths.begin() + static_cast<std::ptrdiff_t>(i));
      axis.values.erase(axis.values.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  std::erase_if(sweep, [](const SweepAxis& axis) { return axis.paths.empty(); });
}

std::size_t count_points(const Sweep& sweep, std::size_t limit) {
  std::size_t points = 1;
  for (const SweepAxis& axis : sweep) {
    if (axis.size() > limit / points) return limit + 1;
    points *= axis.size();
  }
  return points;
}

Layer settings_at(const Sweep& sweep, std::size_t index) {
  Layer layer;
  visit_point(sweep, index,
              [&](const std::string& path, const Setting& setting) { layer.insert_or_assign(path, setting); });
  return layer;
}

std::string point_name(const Sweep& sweep, std::size_t index) {
  std::string name;
  visit_point(sweep, index, [&](const std::string& path, const Setting& setting) {
    name += fmt::format("/{}={}", short_name(sweep, path), plain_text(setting.value));
  });
  return name;
}

}  // namespace sdm::config
