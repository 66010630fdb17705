#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace sdm::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Runs a parser as the tool does. True: the input was taken. A UserError (ConfigErrors is one) is the legal way to say
/// no; its sentence must not be empty. Anything else that is thrown leaves here and ends the fuzzer as a finding.
template <typename Body>
bool accepted(Body&& body) {
  try {
    body();
    return true;
  } catch (const UserError& error) {
    SDM_REQUIRE(error.what()[0] != '\0', "a refusal without a sentence");
    return false;
  }
}

}  // namespace sdm::fuzz
