#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sdm {

enum class Ink : unsigned char { plain, bold, dim, green, red, yellow };

/// The sign that says how a case or a check ended.
struct Mark {
  const char* sign;
  Ink ink;
};

std::string repeat(std::string_view piece, std::size_t times);

/// Wraps text in terminal colours, or leaves it as it is.
class Paint {
 public:
  explicit Paint(bool on) : on_(on) {}
  std::string operator()(Ink ink, std::string_view text) const;

 private:
  bool on_;
};

/// Text on one terminal line: line breaks, tabs and other control characters become spaces, bytes that are no UTF-8
/// U+FFFD, so that a result file cannot move the cursor.
std::string one_line(std::string_view text);

/// A table with aligned columns (by display width), a thin rule under the header and two spaces between columns.
class TextTable {
 public:
  enum class Align : unsigned char { left, right };
  struct Column {
    std::string header;
    Align align = Align::right;
    std::size_t min_width = 0;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// As many cells as columns.
  void add_row(std::vector<std::string> cells, Ink ink = Ink::plain);
  void add_rule();

  /// Columns whose cells are all empty are left out. Lines are indented and carry no blanks at their end.
  std::string render(const Paint& paint, std::size_t indent) const;

 private:
  struct Row {
    std::vector<std::string> cells;  ///< empty: a rule
    Ink ink;
  };
  std::vector<std::size_t> widths() const;  ///< 0: left out
  std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

/// Joins phrases by " · " into lines of at most `width` columns, each indented.
std::string wrap_phrases(const std::vector<std::string>& phrases, std::size_t indent, std::size_t width);

}  // namespace sdm
