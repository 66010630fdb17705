#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "workload/sparse.h"

namespace sdm {
namespace {

using Kind = Distribution::Kind;

TEST(Validate, NamesTheFieldTheValueAndTheBound) {
  using Change = std::function<void(SparseWorkload&)>;
  const std::vector<std::pair<Change, std::string>> cases = {
      {[](auto& w) { w.chunk = 1; }, "chunk is 1, but must lie in [2, 256]"},
      {[](auto& w) { w.chunk = 257; }, "chunk is 257"},
      {[](auto& w) { w.writes = 0; }, "writes is 0, but must lie in [1, 256]"},
      {[](auto& w) { w.reads = 257; }, "reads is 257"},
      {[](auto& w) { w.head_dim = (1 << 20) + 1; }, "head_dim is 1048577, but must lie in [1, 1048576]"},
      {[](auto& w) { w.streams = 0; }, "streams is 0"},
      {[](auto& w) { w.tokens = 0; }, "tokens is 0"},
      {[](auto& w) { w.tokens = std::numeric_limits<std::int32_t>::max(); }, "tokens is 2147483647"},
      {[](auto& w) { w.slots = 0; }, "slots is 0"},
      {[](auto& w) { w.slots = 15; }, "writes is 16, but must be at most slots = 15"},
      {[](auto& w) { w.slots = 1 << 30, w.streams = 2; }, "2147483648 rows, but must be at most 2^31 - 1"},
      {[](auto& w) { w.head_dim = 1 << 20, w.tokens = 1 << 30; }, "more than the 17592186044416 elements"},
      {[](auto& w) { w.bank_dtype = DType::f16; }, "bank_dtype is f16, but must be bf16 or f32"},
      {[](auto& w) { w.bank_dtype = DType::f32; }, "grad_dtype is bf16, but must be f32 with an f32 bank"},
      {[](auto& w) { w.value_dtype = DType::i32; }, "value_dtype is i32"},
      {[](auto& w) { w.weight_dtype = DType::f16; }, "weight_dtype is f16"},
      {[](auto& w) { w.index_dtype = DType::u32; }, "index_dtype is u32, but must be i32 or i64"},
      {[](auto& w) {
         w.distribution = {Kind::zipf, 0.0, 64, ""};
       },
       "distribution.s is 0, but must lie in (0, 64]"},
      {[](auto& w) {
         w.distribution = {Kind::zipf, std::nan(""), 64, ""};
       },
       "distribution.s is nan"},
      {[](auto& w) {
         w.distribution = {Kind::hot, 1.1, 15, ""};
       },
       "distribution.hot_slots is 15"},
      {[](auto& w) {
         w.distribution = {Kind::hot, 1.1, 4097, ""};
       },
       "and slots = 4096"},
      {[](auto& w) {
         w.distribution = {Kind::replay, 1.1, 64, ""};
       },
       "distribution.file is empty"},
  };
  EXPECT_NO_THROW(validate(SparseWorkload{}));
  for (const auto& [change, expected] : cases) {
    SparseWorkload w;
    change(w);
    try {
      validate(w);
      ADD_FAILURE() << "accepted: " << expected;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
  SparseWorkload two;
  two.chunk = 1;
  two.reads = 0;
  EXPECT_EQ(find_problems(two).size(), 2u);
}

}  // namespace
}  // namespace sdm
