#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sdm::config {

/// The offset of the first byte that no UTF-8 sequence (RFC 3629: no surrogates, no overlong forms) can hold.
std::optional<std::size_t> first_bad_utf8(std::string_view text);

/// Appends a code point below 0x110000 that is no surrogate.
void append_utf8(std::string& out, std::uint32_t code);

}  // namespace sdm::config
