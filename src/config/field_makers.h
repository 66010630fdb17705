#pragma once
// How fields.cpp writes its rows; for no other file.
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/fields.h"

namespace sdm::config {

inline Scalar integer_scalar(std::uint64_t value) {
  if (value > std::numeric_limits<std::int64_t>::max()) return value;
  return static_cast<std::int64_t>(value);
}

// `access` maps a Draft, const or not, to the member that the field sets.

template <typename Access>
Field integer(std::string path, Scope scope, std::int64_t min, std::uint64_t max, Access access, std::string help) {
  Field field;
  field.path = std::move(path);
  field.type = ValueType::integer;
  field.scope = scope;
  field.min = min;
  field.max = max;
  field.help = std::move(help);
  field.set = [access](Draft& draft, const Scalar& value) {
    using Member = std::remove_reference_t<decltype(access(draft))>;
    const auto* wide = std::get_if<std::uint64_t>(&value);
    access(draft) = static_cast<Member>(wide ? *wide : static_cast<std::uint64_t>(std::get<std::int64_t>(value)));
  };
  field.get = [access](const Draft& draft) { return integer_scalar(static_cast<std::uint64_t>(access(draft))); };
  return field;
}

template <typename Access>
Field real(std::string path, double min, double max, bool above_min, Access access, std::string help) {
  Field field;
  field.path = std::move(path);
  field.type = ValueType::real;
  field.real_min = min;
  field.real_max = max;
  field.above_min = above_min;
  field.help = std::move(help);
  field.set = [access](Draft& draft, const Scalar& value) { access(draft) = std::get<double>(value); };
  field.get = [access](const Draft& draft) { return Scalar(access(draft)); };
  return field;
}

template <typename Access>
Field boolean(std::string path, Scope scope, Access access, std::string help) {
  Field field;
  field.path = std::move(path);
  field.type = ValueType::boolean;
  field.scope = scope;
  field.help = std::move(help);
  field.set = [access](Draft& draft, const Scalar& value) { access(draft) = std::get<bool>(value); };
  field.get = [access](const Draft& draft) { return Scalar(access(draft)); };
  return field;
}

template <typename Enum>
using Meanings = std::vector<std::pair<Word, Enum>>;

template <typename Enum, typename Access>
Field choice(std::string path, Scope scope, const Meanings<Enum>& meanings, Access access, std::string help) {
  Field field;
  field.path = std::move(path);
  field.type = ValueType::choice;
  field.scope = scope;
  field.help = std::move(help);
  for (const auto& meaning : meanings) field.words.push_back(meaning.first);
  field.set = [access, meanings](Draft& draft, const Scalar& value) {
    for (const auto& [word, meaning] : meanings) {
      if (word.name == std::get<std::string>(value)) access(draft) = meaning;
    }
  };
  field.get = [access, meanings](const Draft& draft) {
    for (const auto& [word, meaning] : meanings) {
      if (meaning == access(draft)) return Scalar(word.name);
    }
    return Scalar(std::string("?"));
  };
  return field;
}

/// The variant of one stage, or of "*".
inline Field variant(const std::string& key, std::string help) {
  Field field;
  field.path = "variants." + key;
  field.help = std::move(help);
  field.set = [key](Draft& draft, const Scalar& value) { draft.variants[key] = std::get<std::string>(value); };
  field.get = [key](const Draft& draft) {
    const auto found = draft.variants.find(key);
    return Scalar(found == draft.variants.end() ? std::string() : found->second);
  };
  return field;
}

template <typename Access>
Field text(std::string path, Access access, std::string help) {
  Field field;
  field.path = std::move(path);
  field.type = ValueType::text;
  field.help = std::move(help);
  field.set = [access](Draft& draft, const Scalar& value) { access(draft) = std::get<std::string>(value); };
  field.get = [access](const Draft& draft) { return Scalar(access(draft)); };
  return field;
}

inline Field beside(std::string distribution, Field field) {
  field.scope = Scope::sparse;
  field.distribution = std::move(distribution);
  return field;
}

inline Field in_multiples_of(std::uint64_t step, Field field) {
  field.multiple_of = step;
  return field;
}

}  // namespace sdm::config
