// Line charts of cases that differ in one number.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "report/html.h"

namespace sdm::html {
namespace {

constexpr std::size_t kMostLines = 6;  ///< as many as there are colours

std::optional<double> number_of(const std::string& value) {
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

/// The id without "/chunk=64" (a sweep names a parameter by the last part of its path).
std::string id_without(const std::string& id, const std::string& param, const std::string& value) {
  const std::size_t dot = param.rfind('.');
  const std::string part = fmt::format("/{}={}", dot == std::string::npos ? param : param.substr(dot + 1), value);
  const std::size_t at = id.find(part);
  if (at == std::string::npos || (at + part.size() < id.size() && id[at + part.size()] != '/')) return id;
  return id.substr(0, at) + id.substr(at + part.size());
}

bool timed(const CaseResult& result) {
  return std::any_of(result.passes.begin(), result.passes.end(),
                     [](const PassTiming& pass) { return !pass.time.samples_us.empty(); });
}

struct Line {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< x, microseconds

  double highest() const {
    double high = 0;
    for (const auto& [x, y] : points) high = std::max(high, y);
    return high;
  }
};

/// Passes, or stages, of the first cache mode of the sweep; slowest first, none with fewer than two points.
std::vector<Line> lines_of(const Sweep& sweep, bool stages) {
  const std::string& l2 = sweep.points.front().result->passes.front().l2;
  std::vector<Line> lines;
  const auto add = [&](const std::string& name, double x, const SampleStats& time) {
    if (time.samples_us.empty() || !std::isfinite(time.median_us)) return;
    auto line = std::find_if(lines.begin(), lines.end(), [&](const Line& l) { return l.name == name; });
    if (line == lines.end()) line = lines.insert(lines.end(), Line{name, {}});
    line->points.emplace_back(x, time.median_us);
  };
  for (const Sweep::Point& point : sweep.points) {
    if (!stages)
      for (const PassTiming& pass : point.result->passes)
        if (pass.l2 == l2) add(pass.name, point.x, pass.time);
    if (stages)
      for (const StageTiming& stage : point.result->stages)
        if (stage.l2 == l2) add(stage.name, point.x, stage.time);
  }
  std::erase_if(lines, [](const Line& line) { return line.points.size() < 2; });
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.highest() > b.highest(); });
  if (lines.size() > kMostLines) lines.resize(kMostLines);
  return lines;
}

/// 1, 2, 2.5 or 5 times a power of ten: about four steps to `high`.
double tick_step(double high) {
  const double rough = high / 4, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0})
    if (rough <= factor * power) return factor * power;
  return 10 * power;
}

class Chart {
 public:
  Chart(const Sweep& sweep, std::vector<Line> lines) : sweep_(sweep), lines_(std::move(lines)) {
    low_ = sweep.points.front().x, high_ = sweep.points.back().x;
    log_ = low_ > 0 && high_ / low_ >= 4;
    double top = 0;
    for (const Line& line : lines_) top = std::max(top, line.highest());
    step_ = tick_step(top > 0 ? top : 1);
    top_ = step_ * std::max(1.0, std::ceil(top / step_ - 1e-9));
  }

  std::string html(const std::string& title) const {
    std::string legend;
    for (std::size_t i = 0; i < lines_.size(); ++i)
      legend += fmt::format("<span><i style=\"background:var(--s{})\"></i>{}</span>", i, text(lines_[i].name));
    return fmt::format(
        "<div class=\"chart\"><h4>{0}</h4><svg viewBox=\"0 0 {1} {2}\" role=\"img\" "
        "aria-label=\"{0}\">{3}{4}</svg><div class=\"legend\">{5}</div></div>\n",
        text(title), kWidth, kHeight, axes(), curves(), legend);
  }

 private:
  static constexpr double kWidth = 520, kHeight = 260, kLeft = 70, kRight = 14, kTop = 12, kBottom = 42;

  double x(double value) const {
    const double share = log_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
    return kLeft + 8 + share * (kWidth - kLeft - kRight - 16);
  }
  double y(double us) const { return kHeight - kBottom - us / top_ * (kHeight - kTop - kBottom); }

  std::string axes() const {
    std::string out;
    for (double us = 0; us <= top_ * 1.0001; us += step_) {
      out += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", kLeft,
                         kWidth - kRight, y(us), y(us));
      out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", kLeft - 8, y(us) + 4,
                         us == 0 ? "0" : text(human_microseconds(us)));
    }
    double last = -1e9;
    for (const Sweep::Point& point : sweep_.points) {
      if (x(point.x) - last < 36) continue;  // labels must not run into each other
      last = x(point.x);
      out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>", last, kHeight - kBottom + 18,
                         point.x);
    }
    return out + fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}{}</text>",
                             (kLeft + kWidth - kRight) / 2, kHeight - 5, text(sweep_.param),
                             log_ ? " (log scale)" : "");
  }

  std::string curves() const {
    std::string out;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      std::string path, dots;
      for (const auto& [at, us] : lines_[i].points) {
        path += fmt::format("{:.1f},{:.1f} ", x(at), y(us));
        dots += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.5\" style=\"fill:var(--s{})\"><title>{} at {:g}: "
            "{}</title></circle>",
            x(at), y(us), i, text(lines_[i].name), at, text(human_microseconds(us)));
      }
      out += fmt::format("<polyline points=\"{}\" style=\"stroke:var(--s{})\"/>{}", path, i, dots);
    }
    return out;
  }

  const Sweep& sweep_;
  std::vector<Line> lines_;
  double low_, high_, top_, step_;
  bool log_;
};

}  // namespace

std::vector<Sweep> find_sweeps(const std::vector<CaseResult>& cases) {
  std::set<std::string> keys;
  for (const CaseResult& result : cases)
    for (const auto& [key, value] : result.params) keys.insert(key);
  std::vector<Sweep> sweeps;
  for (const std::string& key : keys) {
    std::map<std::pair<std::string, std::map<std::string, std::string>>, std::vector<Sweep::Point>> groups;
    for (const CaseResult& result : cases) {
      const auto value = result.params.find(key);
      const std::optional<double> x = value == result.params.end() ? std::nullopt : number_of(value->second);
      if (!x || !timed(result)) continue;
      auto others = result.params;
      others.erase(key);
      groups[{id_without(result.id, key, value->second), std::move(others)}].push_back({*x, &result});
    }
    for (auto& [group, points] : groups) {
      std::stable_sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
      points.erase(std::unique(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.x == b.x; }),
                   points.end());
      if (points.size() >= 2) sweeps.push_back({key, group.first, std::move(points)});
    }
  }
  return sweeps;
}

std::string sweep_section(const Sweep& sweep) {
  std::string charts;
  if (const auto passes = lines_of(sweep, false); !passes.empty()) charts += Chart(sweep, passes).html("Passes");
  if (const auto stages = lines_of(sweep, true); !stages.empty()) charts += Chart(sweep, stages).html("Slowest stages");
  if (charts.empty()) return "";
  return fmt::format(
      "<section class=\"card\"><div class=\"head\"><h3>{}</h3><span class=\"chip\">over {}</span></div><br>\n<div "
      "class=\"charts\">{}</div></section>\n",
      text(sweep.where), text(sweep.param), charts);
}

}  // namespace sdm::html
