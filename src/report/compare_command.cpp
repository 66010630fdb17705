#include "report/compare_command.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace sdm {
namespace {

/// What of the new side's command does not belong into the next one: output and selection, and what would undo the
/// greater number of samples.
std::vector<std::string> kept_words(const std::vector<std::string>& argv) {
  constexpr std::array kWithValue = {"-o", "--output", "--filter", "--format"};
  constexpr std::array kFlags = {"--force",   "--shuffle", "--quick",    "--no-timing",
                                 "--profile", "--dry-run", "--calibrate"};
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < argv.size(); ++i) {
    const std::string& word = argv[i];
    const auto is = [&](const char* option) { return word == option; };
    const auto assigns = [&](const char* option) { return word.starts_with(std::string(option) + "="); };
    if (std::any_of(kWithValue.begin(), kWithValue.end(), is)) {
      ++i;
    } else if (word == "--set" && i + 1 < argv.size() && argv[i + 1].starts_with("timing.")) {
      ++i;
    } else if (std::none_of(kFlags.begin(), kFlags.end(), is) &&
               std::none_of(kWithValue.begin(), kWithValue.end(), assigns)) {
      kept.push_back(word);
    }
  }
  return kept;
}

}  // namespace

std::string regex_literal(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view(".^$|()[]{}*+?\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view kSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kSafe) == std::string_view::npos) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string more_samples_command(const Comparison& comparison) {
  std::vector<std::string> ids;
  std::size_t most = 0;
  for (const ComparedCase& c : comparison.cases) {
    bool ambiguous = false;
    for (const CompareRow& row : c.rows) {
      if (row.verdict != Verdict::ambiguous) continue;
      ambiguous = true;
      most = std::max({most, row.base.samples, row.now.samples});
    }
    if (ambiguous) ids.push_back(regex_literal(c.id));
  }
  if (ids.empty()) return "";
  std::vector<std::string> words = kept_words(comparison.now.argv);
  if (words.size() < 2) words = {"sdm-bench", "run", "CONFIG"};
  const std::size_t samples = std::clamp<std::size_t>(4 * most, 4 * comparison.rules.min_samples, 10'000);
  for (std::string word : {std::string("--set"), fmt::format("timing.min_samples={}", samples), std::string("--set"),
                           std::string("timing.max_seconds=60"), std::string("--filter"),
                           fmt::format("^({})$", join(ids, "|")), std::string("-o"), std::string("more.json")})
    words.push_back(std::move(word));
  for (std::string& word : words) word = shell_word(word);
  return join(words, " ");
}

}  // namespace sdm
