#pragma once
#include <span>
#include <string>
#include <string_view>

#include "report/result.h"

namespace sdm {

/// A result file (spec 5.5): indented JSON, keys in the order of the structs. Units are in the key names, 64-bit
/// integers and digests are strings, what is missing is null (empty optionals, empty text such as the reason of an ok
/// case, the times of a pass without samples, numbers that are not finite). Text that is no UTF-8 is mended.
std::string to_json(const Report& report);

/// Reads what to_json wrote. `file` names the source in errors. Throws UserError with the file and the path of the
/// first thing wrong (`result.json: cases[3].stages[0].median_us is missing`): another schema, a missing field, a wrong
/// type, an unknown status, an integer out of range. Unknown further fields are ignored.
Report report_from_json(std::string_view text, const std::string& file);

/// read_file() and report_from_json(). A path that ends in ".journal" is read as the journal of an interrupted run.
Report load_report(const std::string& path);

/// One case in one line, and back. `run_id` and the schema are in the line so that it stands on its own.
std::string case_to_json_line(const CaseResult& result, const std::string& run_id);
CaseResult case_from_json_line(std::string_view line, const std::string& file);

/// A journal is a line with everything but the cases, then a line per finished case.
std::string journal_header(const Report& report);

/// The report of an interrupted run; its status becomes "interrupted". A last line that cannot be read is dropped
/// (power was lost while it was written), any other is an error that names the line.
Report report_from_journal(std::span<const std::string> lines, const std::string& file);

}  // namespace sdm
