#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "base/error.h"
#include "workload/sparse.h"

namespace sdm {
namespace {

constexpr std::int64_t kMaxRows = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 30;
// Keeps every element count and byte offset far inside 64 bits; what fits the memory is another question.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 44;

class Problems {
 public:
  void range(std::string_view name, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high) add("{} is {}, but must lie in [{}, {}]", name, value, low, high);
  }

  void one_of(std::string_view name, DType value, std::initializer_list<DType> legal) {
    if (std::find(legal.begin(), legal.end(), value) != legal.end()) return;
    std::string names;
    for (const DType dtype : legal) names += fmt::format("{}{}", names.empty() ? "" : " or ", name_of(dtype));
    add("{} is {}, but must be {}", name, name_of(value), names);
  }

  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    found.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  std::vector<std::string> found;
};

void check_sizes(const SparseWorkload& w, Problems& problems) {
  problems.range("streams", w.streams, 1, kMaxRows);
  problems.range("tokens", w.tokens, 1, kMaxTokens);
  problems.range("chunk", w.chunk, 2, 256);
  problems.range("writes", w.writes, 1, 256);
  problems.range("reads", w.reads, 1, 256);
  problems.range("head_dim", w.head_dim, 1, std::int64_t{1} << 20);
  problems.range("slots", w.slots, 1, kMaxRows);
  if (!problems.found.empty()) return;  // what follows multiplies the sizes
  if (w.writes > w.slots) problems.add("writes is {}, but must be at most slots = {}", w.writes, w.slots);
  if (w.reads > w.slots) problems.add("reads is {}, but must be at most slots = {}", w.reads, w.slots);
  if (w.rows() > kMaxRows) {
    problems.add("streams * slots is {} * {} = {} rows, but must be at most 2^31 - 1 = {}", w.streams, w.slots,
                 w.rows(), kMaxRows);
  }
  // Below 2^30 + 2^8 tokens, 2^31 streams and 2^20 elements a token the product could pass 2^63: divide instead.
  const std::int64_t token_rows = w.chunks() * w.chunk;
  const std::int64_t widest = std::max({w.writes, w.reads, w.head_dim});
  if (token_rows > kMaxElements / widest) {
    problems.add("{} tokens of {} elements are more than the {} elements that an input may hold", token_rows, widest,
                 kMaxElements);
  }
}

void check_types(const SparseWorkload& w, Problems& problems) {
  problems.one_of("bank_dtype", w.bank_dtype, {DType::bf16, DType::f32});
  problems.one_of("value_dtype", w.value_dtype, {DType::bf16, DType::f32});
  problems.one_of("weight_dtype", w.weight_dtype, {DType::f32, DType::bf16});
  problems.one_of("index_dtype", w.index_dtype, {DType::i32, DType::i64});
  problems.one_of("grad_dtype", w.grad_dtype, {DType::bf16, DType::f32});
  if (w.bank_dtype == DType::f32 && w.grad_dtype == DType::bf16) {
    problems.add("grad_dtype is bf16, but must be f32 with an f32 bank");
  }
}

void check_distribution(const SparseWorkload& w, Problems& problems) {
  const Distribution& d = w.distribution;
  if (d.kind == Distribution::Kind::zipf && !(d.zipf_s > 0 && d.zipf_s <= 64)) {  // also refuses NaN
    problems.add("distribution.s is {}, but must lie in (0, 64]", d.zipf_s);
  }
  if (d.kind == Distribution::Kind::hot && (d.hot_slots < std::max(w.writes, w.reads) || d.hot_slots > w.slots)) {
    problems.add("distribution.hot_slots is {}, but must lie between max(writes, reads) = {} and slots = {}",
                 d.hot_slots, std::max(w.writes, w.reads), w.slots);
  }
  if (d.kind == Distribution::Kind::replay && d.file.empty()) {
    problems.add("distribution.file is empty, but a replay needs the safetensors file with the inputs");
  }
}

}  // namespace

std::vector<std::string> find_problems(const SparseWorkload& workload) {
  Problems problems;
  check_sizes(workload, problems);
  check_types(workload, problems);
  check_distribution(workload, problems);
  return problems.found;
}

void validate(const SparseWorkload& workload) {
  const std::vector<std::string> problems = find_problems(workload);
  if (!problems.empty()) throw UserError(fmt::format("workload: {}", fmt::join(problems, "; ")));
}

}  // namespace sdm
