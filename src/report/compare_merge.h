#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/result.h"

namespace sdm {

/// A case of one side: what several runs of it say together.
struct MergedCase {
  CaseResult result;  ///< samples of all ok runs pooled, statistics made anew
  int runs = 0;
  std::string device;                     ///< the device's name
  std::set<int> contracts;                ///< contract versions of the runs
  std::vector<std::string> torn;          ///< "stage/tensor" whose digest differs between runs of this side
  std::vector<std::string> other_params;  ///< parameters that differ between runs of this side
};

/// One side of a comparison: one or several result files.
struct MergedSide {
  std::vector<std::string> files, titles;  ///< as given; report/rows.h title_line of each
  std::vector<std::string> argv;           ///< of the last file: the command that made it
  std::set<std::string> devices;           ///< names
  std::set<int> contracts;
  std::vector<MergedCase> cases;  ///< in order of first appearance

  const MergedCase* find(const std::string& id) const;
};

/// `files` name the reports one by one. A case counts as failed if one of its runs failed, else as ok if one was ok,
/// else as its first run ended.
MergedSide merge_reports(const std::vector<Report>& reports, const std::vector<std::string>& files);

/// Keys that differ between two maps, or are in one alone.
std::vector<std::string> differing_keys(const std::map<std::string, std::string>& a,
                                        const std::map<std::string, std::string>& b);

}  // namespace sdm
