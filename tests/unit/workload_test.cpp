#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <span>

#include "base/parallel.h"
#include "workload/bank_value.h"
#include "workload/sparse.h"

namespace sdm {
namespace {

using Kind = Distribution::Kind;
constexpr Kind kGenerated[] = {Kind::uniform, Kind::zipf, Kind::hot, Kind::sequential, Kind::product_key};

// FNV-1a over the bytes of little-endian arrays.
template <typename T>
std::uint64_t fnv(std::span<const T> values, std::uint64_t hash = 0xcbf29ce484222325ULL) {
  for (const std::byte byte : std::as_bytes(values)) {
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3ULL;
  }
  return hash;
}

template <typename T>
std::uint64_t fnv(const std::vector<T>& values, std::uint64_t hash = 0xcbf29ce484222325ULL) {
  return fnv(std::span<const T>(values), hash);
}

std::uint64_t digest(const SparseInputs& in) {
  std::uint64_t hash = fnv(in.q_idx, fnv(in.k_idx));
  for (const auto* array : {&in.k, &in.q, &in.g, &in.v, &in.beta, &in.d_reading}) hash = fnv(*array, hash);
  return hash;
}

SparseWorkload small_workload(Kind kind) {
  SparseWorkload w;
  w.streams = 3;
  w.tokens = 21;
  w.chunk = 8;
  w.writes = 5;
  w.reads = 7;
  w.head_dim = 6;
  w.slots = 50;
  w.value_dtype = DType::bf16;
  w.gate = Gate::write;
  w.distribution.kind = kind;
  w.distribution.hot_slots = 9;
  w.seed = 0x123456789abcdefULL;
  return w;
}

struct TokenRow {
  std::int64_t row, token, stream;
};

std::vector<TokenRow> token_rows(const SparseWorkload& w) {
  std::vector<TokenRow> rows;
  for (std::int64_t row = 0; row < w.chunks() * w.chunk; ++row) {
    const std::int64_t chunk = row / w.chunk;
    rows.push_back({row, chunk / w.streams * w.chunk + row % w.chunk, chunk % w.streams});
  }
  return rows;
}

// The first violation of "every token's rows are distinct and belong to its stream; padding is zero", or "".
std::string find_bad_token(const SparseWorkload& w, const std::vector<std::int32_t>& indices, std::int64_t width) {
  for (const auto& [row, token, stream] : token_rows(w)) {
    std::set<std::int32_t> seen;
    for (std::int64_t n = 0; n < width; ++n) {
      const std::int32_t index = indices[static_cast<std::size_t>(row * width + n)];
      const std::string at = fmt::format("stream {} token {} entry {} index {}", stream, token, n, index);
      if (token >= w.tokens) {
        if (index != 0) return at + ": padding";
        continue;
      }
      if (index < stream * w.slots || index >= (stream + 1) * w.slots) return at + ": foreign row";
      if (!seen.insert(index).second) return at + ": repeated";
    }
  }
  return "";
}

// Observed counts against the exact law: near ranks, ratios, and the far tail that the table holds in wide buckets.

TEST(Workload, SlotsAreDistinctForRandomShapes) {
  Parallel threads(2);
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    const auto pick = [&](std::int64_t low, std::int64_t high) {
      return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
    };
    SparseWorkload w;
    w.seed = seed;
    w.streams = static_cast<std::int32_t>(pick(1, 4));
    w.tokens = static_cast<std::int32_t>(pick(1, 40));
    w.chunk = static_cast<std::int32_t>(pick(2, 17));
    w.slots = seed % 3 == 0 ? pick(1, 12) : seed % 3 == 1 ? pick(200, 300) : pick(1, 900000);
    const std::int64_t most = std::min<std::int64_t>(256, w.slots);
    w.writes = static_cast<std::int32_t>(seed % 4 == 0 ? most : pick(1, most));
    w.reads = static_cast<std::int32_t>(pick(1, most));
    w.head_dim = 1;
    w.distribution.zipf_s = seed % 5 == 0 ? 6.0 : 1.1;
    w.distribution.hot_slots = seed % 2 == 0 ? std::max(w.writes, w.reads) : pick(std::max(w.writes, w.reads), w.slots);
    for (const Kind kind : kGenerated) {
      w.distribution.kind = kind;
      const SparseInputs in = generate_inputs(w, threads);
      SCOPED_TRACE(fmt::format("seed {} kind {} slots {} W {} R {}", seed, int(kind), w.slots, w.writes, w.reads));
      ASSERT_EQ(find_bad_token(w, in.k_idx, w.writes), "");
      ASSERT_EQ(find_bad_token(w, in.q_idx, w.reads), "");
    }
  }
}

TEST(Workload, TheDistinctnessCheckSeesPlantedFaults) {
  Parallel threads(1);
  const SparseWorkload w = small_workload(Kind::uniform);
  const SparseInputs in = generate_inputs(w, threads);
  auto repeated = in.k_idx;
  repeated[7] = repeated[5];
  EXPECT_NE(find_bad_token(w, repeated, w.writes), "");
  auto foreign = in.k_idx;
  foreign[7] += static_cast<std::int32_t>(w.slots);
  EXPECT_NE(find_bad_token(w, foreign, w.writes), "");
  auto padding = in.k_idx;
  padding.back() = 1;
  EXPECT_NE(find_bad_token(w, padding, w.writes), "");
}

TEST(Workload, HotAndSequentialAndProductKeyShapes) {
  Parallel threads(1);
  SparseWorkload w = small_workload(Kind::hot);
  w.distribution.hot_slots = w.reads;
  SparseInputs in = generate_inputs(w, threads);
  std::set<std::vector<std::int32_t>> orders;
  for (std::int64_t t = 0; t < 8; ++t) {  // chunk 0 is stream 0's; each token reads a permutation of the hot slots
    std::vector<std::int32_t> token(in.q_idx.begin() + t * w.reads, in.q_idx.begin() + (t + 1) * w.reads);
    orders.insert(token);
    EXPECT_EQ(*std::max_element(token.begin(), token.end()), w.reads - 1);
  }
  EXPECT_GT(orders.size(), 4u);

  w = small_workload(Kind::sequential);
  in = generate_inputs(w, threads);
  for (std::size_t e = 0; e < 40; ++e) EXPECT_EQ(in.k_idx[e], static_cast<std::int32_t>(e));  // one chunk: all distinct
  EXPECT_EQ(in.k_idx[3 * 40 + 10], 0);  // step 1 of stream 0: entry 50 wraps

  w = small_workload(Kind::product_key);
  w.slots = 100;  // 10 x 10: a token's 5 best pairs come from at most 5 rows and columns, never from 5 of each
  in = generate_inputs(w, threads);
  for (std::int64_t t = 0; t < 8; ++t) {
    std::set<int> rows, columns;
    for (std::int64_t n = 0; n < w.writes; ++n) {
      const std::int32_t slot = in.k_idx[static_cast<std::size_t>(t * w.writes + n)];
      rows.insert(slot / 10);
      columns.insert(slot % 10);
    }
    EXPECT_LE(rows.size() + columns.size(), 6u);  // a staircase of 5 cells that starts at the best pair
  }
}

TEST(Workload, BitsDoNotDependOnThreads) {
  for (const Kind kind : kGenerated) {
    SparseWorkload w = small_workload(kind);
    w.tokens = 300;
    w.final_bank_gradient = true;
    w.slots = 3000;  // 54,000 and more elements: several tasks
    w.head_dim = 33;
    std::set<std::uint64_t> digests;
    for (const int n : {1, 2, 3}) {
      Parallel threads(n);
      const SparseInputs in = generate_inputs(w, threads);
      const auto count = static_cast<std::size_t>(w.bank_elements());
      std::vector<bf16_t> bank(count), grad(count);
      fill_bank(w, in, BankKind::memory, 0, w.bank_elements(), bank.data(), threads);
      fill_bank(w, in, BankKind::gradient, 0, w.bank_elements(), grad.data(), threads);
      const double coverage = measure_facts(w, in, threads).slot_coverage;
      digests.insert(fnv(std::vector{coverage}, fnv(grad, fnv(bank, digest(in)))));
    }
    EXPECT_EQ(digests.size(), 1u) << int(kind);
  }
}

// What a token holds does not depend on how the tokens are cut into chunks, or on how many there are.

TEST(Workload, TokensDoNotDependOnChunks) {
  Parallel threads(2);
  const auto by_token = [&](const SparseWorkload& w) {
    const SparseInputs in = generate_inputs(w, threads);
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<float>> content;
    for (const TokenRow& at : token_rows(w)) {
      if (at.token >= 21) continue;
      auto& numbers = content[{at.stream, at.token}];
      const auto append = [&](const auto& array, std::int64_t width) {
        for (std::int64_t i = 0; i < width; ++i) numbers.push_back(float(array[std::size_t(at.row * width + i)]));
      };
      append(in.k_idx, w.writes), append(in.q_idx, w.reads), append(in.k, w.writes), append(in.q, w.reads);
      append(in.g, w.writes), append(in.v, w.head_dim), append(in.beta, 1), append(in.d_reading, w.head_dim);
    }
    return content;
  };
  for (const Kind kind : kGenerated) {
    SparseWorkload w = small_workload(kind);
    const auto expected = by_token(w);
    w.chunk = 5;
    EXPECT_EQ(by_token(w), expected);
    w.tokens = 30;
    EXPECT_EQ(by_token(w), expected);
    w.seed ^= 1ULL << 40;
    EXPECT_NE(by_token(w), expected);
  }
}

TEST(Workload, KnownDigests) {
  // A change here changes the bits of every published result: never adjust one without saying so in the release notes.
  const std::map<Kind, std::uint64_t> expected = {
      {Kind::uniform, 0x1e61c3bbdbd7b623ULL},     {Kind::zipf, 0xafea31b63baa049fULL},
      {Kind::hot, 0x977e1ebdde0016d3ULL},         {Kind::sequential, 0x943ec0a027787c56ULL},
      {Kind::product_key, 0x693ae00640fc4466ULL},
  };
  Parallel threads(2);
  for (const auto& [kind, hash] : expected) {
    EXPECT_EQ(digest(generate_inputs(small_workload(kind), threads)), hash) << "kind " << int(kind);
  }
  SparseWorkload w = small_workload(Kind::uniform);
  w.final_bank_gradient = true;
  w.grad_dtype = DType::f32;
  std::vector<bf16_t> bank(static_cast<std::size_t>(w.bank_elements()));
  std::vector<float> grad(bank.size());
  fill_bank(w, {}, BankKind::memory, 0, w.bank_elements(), bank.data(), threads);
  fill_bank(w, {}, BankKind::gradient, 0, w.bank_elements(), grad.data(), threads);
  EXPECT_EQ(fnv(bank), 0x7ee9021b28d48c26ULL);
  EXPECT_EQ(fnv(grad), 0x68947709996d822bULL);
}

TEST(Workload, ValuesLieInTheirRanges) {
  Parallel threads(2);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SparseWorkload w;
    w.tokens = 250;  // 6 padding tokens
    w.writes = 48;
    w.value_dtype = dtype;
    w.gate = Gate::write;
    const SparseInputs in = generate_inputs(w, threads);
    double squares = 0;
    std::int64_t zeros = 0;
    for (const auto& [row, token, stream] : token_rows(w)) {
      for (std::int64_t n = 0; n < w.writes; ++n) {
        const auto e = static_cast<std::size_t>(row * w.writes + n);
        squares += in.k[e] * in.k[e];
        EXPECT_TRUE(in.g[e] <= 0 && in.g[e] > -0.1f && !(in.g[e] == 0 && std::signbit(in.g[e]))) << in.g[e];
        zeros += token < w.tokens && in.g[e] == 0;
        EXPECT_TRUE(dtype == DType::f32 || float_of_bf16(bf16_bits_of_finite(in.k[e])) == in.k[e]);
        EXPECT_TRUE(token < w.tokens || (in.k[e] == 0 && in.g[e] == 0 && in.k_idx[e] == 0));
      }
      const float beta = in.beta[static_cast<std::size_t>(row)];
      EXPECT_TRUE(beta >= 0 && beta < 1);
      EXPECT_TRUE(token < w.tokens || beta == 0);
    }
    EXPECT_NEAR(squares / w.tokens, 1.0, 0.05);
    EXPECT_NEAR(static_cast<double>(zeros) / (w.tokens * w.writes), 1.0 / 16, 0.01);
    for (const auto* array : {&in.v, &in.d_reading}) {
      const auto [low, high] = std::minmax_element(array->begin(), array->end());
      EXPECT_TRUE(*low >= -1 && *low < -0.99f && *high < 1 && *high > 0.99f);
      const auto padding = array->end() - 6 * w.head_dim;
      EXPECT_TRUE(std::all_of(padding, array->end(), [](float x) { return x == 0; }));
      EXPECT_NE(*(padding - 1), 0.0f);
    }
  }
}

TEST(Facts, AgreeWithABruteForceCount) {
  Parallel threads(3);
  for (const Kind kind : kGenerated) {
    SparseWorkload w = small_workload(kind);
    w.slots = 23;  // repeats within and across chunks; row 0 must not be covered by padding
    const SparseInputs in = generate_inputs(w, threads);
    std::map<std::pair<std::int64_t, std::int32_t>, std::int64_t> groups[2];
    std::set<std::int32_t> seen;
    for (const auto& [row, token, stream] : token_rows(w)) {
      if (token >= w.tokens) continue;
      for (int i = 0; i < 2; ++i) {
        const std::int64_t width = i == 0 ? w.writes : w.reads;
        for (std::int64_t n = 0; n < width; ++n) {
          const std::int32_t index = (i == 0 ? in.k_idx : in.q_idx)[static_cast<std::size_t>(row * width + n)];
          ++groups[i][{row / w.chunk, index}];
          seen.insert(index);
        }
      }
    }
    const auto singles = [](const auto& map) {
      return double(std::count_if(map.begin(), map.end(), [](auto& g) { return g.second == 1; })) / double(map.size());
    };
    const auto longest = [](const auto& map) {
      return std::max_element(map.begin(), map.end(), [](auto& a, auto& b) { return a.second < b.second; })->second;
    };
    const WorkloadFacts facts = measure_facts(w, in, threads);
    EXPECT_EQ(facts.write_entries, w.streams * w.tokens * w.writes);
    EXPECT_EQ(facts.read_entries, w.streams * w.tokens * w.reads);
    EXPECT_EQ(facts.write_groups, std::int64_t(groups[0].size()));
    EXPECT_EQ(facts.read_groups, std::int64_t(groups[1].size()));
    EXPECT_EQ(facts.write_singleton_share, singles(groups[0]));
    EXPECT_EQ(facts.read_singleton_share, singles(groups[1]));
    EXPECT_EQ(facts.longest_write_group, longest(groups[0]));
    EXPECT_EQ(facts.longest_read_group, longest(groups[1]));
    EXPECT_EQ(facts.slot_coverage, double(seen.size()) / double(w.rows()));
  }
}

}  // namespace
}  // namespace sdm
