#pragma once
#include "base/dtype.h"
#include "base/error.h"

namespace sdm {

/// Calls `body.template operator()<N>()` for the one of `Values` that equals `value`.
template <auto... Values, typename Value, typename Body>
void dispatch_value(Value value, Body&& body) {
  const bool found = ((value == Values ? (body.template operator()<Values>(), true) : false) || ...);
  SDM_REQUIRE(found, "dispatch on a value that nothing was built for");
}

/// Calls `body.template operator()<float or bf16_t>()` by the dtype of a row or a value.
template <typename Body>
void dispatch_real(DType dtype, Body&& body) {
  if (dtype == DType::bf16) return body.template operator()<bf16_t>();
  SDM_REQUIRE(dtype == DType::f32, "dispatch on dtype {}, f32 or bf16 expected", name_of(dtype));
  body.template operator()<float>();
}

/// Calls `body.template operator()<int32_t or int64_t>()` by the dtype of an index.
template <typename Body>
void dispatch_index(DType dtype, Body&& body) {
  if (dtype == DType::i64) return body.template operator()<std::int64_t>();
  SDM_REQUIRE(dtype == DType::i32, "dispatch on dtype {}, i32 or i64 expected", name_of(dtype));
  body.template operator()<std::int32_t>();
}

}  // namespace sdm
