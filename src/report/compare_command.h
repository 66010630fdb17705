#pragma once
#include <string>
#include <string_view>

#include "report/compare.h"

namespace sdm {

/// An ECMAScript regular expression that matches this text alone (without anchors).
std::string regex_literal(std::string_view text);

/// A word for a POSIX shell.
std::string shell_word(std::string_view word);

/// The new side's own command, for just the cases with ambiguous rows and four times their samples; empty where no row
/// is ambiguous. What it writes joins the new side of the next comparison.
std::string more_samples_command(const Comparison& comparison);

}  // namespace sdm
