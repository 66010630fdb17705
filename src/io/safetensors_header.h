#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"

namespace sdm {

/// Longest header the format allows.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

struct HeaderEntry {
  StoredType type = StoredType::u8;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< bytes, relative to the end of the header
};

struct SafetensorsHeader {
  std::map<std::string, HeaderEntry, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> metadata;
};

/// Parses the JSON of a header and checks it on its own: keys, types, shape against byte range. Throws UserError whose
/// sentence begins with `path`.
SafetensorsHeader parse_safetensors_header(const std::string& path, std::string_view json);

}  // namespace sdm
