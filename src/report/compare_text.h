#pragma once
#include <string>
#include <vector>

#include "report/compare.h"

namespace sdm {

// What the forms of a comparison share.

/// "465.1 µs", "3.200 GB/s", "71.2 %", "1.500 GiB"; "–" for a missing value.
std::string value_text(const Measured& side, Metric metric);

/// "+11.8 %"; "" where there is no ratio.
std::string change_text(const CompareRow& row);

/// "forward (cold)", "gather (cold)", "memory".
std::string place_text(const CompareRow& row);

/// "3 slower, 1 faster, 14 same"; "" without rows.
std::string count_text(const ComparedCase& c);

/// "digests equal (41 tensors)", "digests DIFFER in write/bank, ..", "digests not compared: why".
std::string digest_text(const ComparedCase& c);

/// What else is to be said of a case: missing, added, why not comparable, tensors that went away.
std::vector<std::string> case_notes(const ComparedCase& c);

/// "12 cases · digests 12 equal · 3 slower, 1 faster, 140 same · verdict: regression".
std::string verdict_line(const Comparison& comparison);

/// "past 5 % and 0.5 µs (median)".
std::string limits_text(const CompareRules& rules);

/// The rows worth a line: passes by their median, and whatever is not the same; all where `everything`.
std::vector<const CompareRow*> shown_rows(const ComparedCase& c, bool everything);

std::string comparison_json(const Comparison& comparison);
std::string comparison_junit(const Comparison& comparison);

}  // namespace sdm
