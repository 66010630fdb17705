#pragma once
#include <string>
#include <string_view>

namespace sdm {

/// Text or attribute value of XML 1.0 and HTML: markup is escaped, line breaks become references, characters that XML
/// cannot hold and bytes that are no UTF-8 become U+FFFD.
std::string xml_text(std::string_view text);

/// Text inside a Markdown table cell or paragraph, on one line: what Markdown or HTML would take for markup is escaped.
std::string markdown_text(const std::string& text);

}  // namespace sdm
