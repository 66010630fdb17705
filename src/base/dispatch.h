#pragma once
#include <stdexcept>
#include <string>

#include "base/dtype.h"

namespace sdm {

// Free of fmt: device sources include it (nvcc and fmt 9's consteval do not agree).

/// Calls `body.template operator()<N>()` for the one of `Values` that equals `value`.
template <auto... Values, typename Value, typename Body>
void dispatch_value(Value value, Body&& body) {
  const bool found = ((value == Values ? (body.template operator()<Values>(), true) : false) || ...);
  if (!found) throw std::logic_error("dispatch on a value that nothing was built for");
}

/// Calls `body.template operator()<float or bf16_t>()` by the dtype of a row or a value.
template <typename Body>
void dispatch_real(DType dtype, Body&& body) {
  if (dtype == DType::bf16) return body.template operator()<bf16_t>();
  if (dtype != DType::f32) throw std::logic_error("f32 or bf16 expected, not " + std::string(name_of(dtype)));
  body.template operator()<float>();
}

/// Calls `body.template operator()<int32_t or int64_t>()` by the dtype of an index.
template <typename Body>
void dispatch_index(DType dtype, Body&& body) {
  if (dtype == DType::i64) return body.template operator()<std::int64_t>();
  if (dtype != DType::i32) throw std::logic_error("i32 or i64 expected, not " + std::string(name_of(dtype)));
  body.template operator()<std::int32_t>();
}

}  // namespace sdm
