#include "workload/captured.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "io/safetensors.h"
#include "numerics/formats.h"

namespace sdm {
namespace {

const std::vector<std::string> kRequired = {"k_idx", "q_idx", "k", "q", "g", "v", "beta"};
const std::vector<std::string> kOptional = {"d_reading", "bank", "d_final_bank"};

class Loader {
 public:
  explicit Loader(const SparseWorkload& workload)
      : w_(workload),
        file_(SafetensorsFile::open(workload.distribution.file)),
        rows_(workload.chunks() * workload.chunk) {}

  SparseInputs load() {
    check_metadata();
    check_names();
    const std::int64_t n = w_.chunks(), c = w_.chunk;
    SparseInputs in;
    in.k_idx = indices("k_idx", w_.writes);
    in.q_idx = indices("q_idx", w_.reads);
    in.k = floats("k", {n, c, w_.writes}, w_.value_dtype);
    in.q = floats("q", {n, c, w_.reads}, w_.value_dtype);
    const std::int64_t gates = w_.gate == Gate::write ? w_.writes : 1;
    in.g = floats("g", {n, c, gates}, DType::f32);
    in.v = floats("v", {n, c, w_.head_dim}, DType::f32);
    in.beta = floats("beta", {n, c}, DType::f32);
    if (file_.contains("d_reading")) in.d_reading = floats("d_reading", {n, c, w_.head_dim}, DType::f32);
    if (file_.contains("bank")) in.bank = floats("bank", {w_.rows(), w_.head_dim}, w_.bank_dtype);
    if (file_.contains("d_final_bank"))
      in.d_final_bank = floats("d_final_bank", {w_.rows(), w_.head_dim}, w_.grad_dtype);
    check_slots("k_idx", in.k_idx, w_.writes);
    check_slots("q_idx", in.q_idx, w_.reads);
    check_range("g", in.g, gates, -std::numeric_limits<float>::max(), 0, "a log-decay is at most 0");
    check_range("beta", in.beta, 1, 0, 1, "a write gate lies in [0, 1]");
    check_padding(in, gates);
    return in;
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw UserError(fmt::format("{}: {}", file_.path(), fmt::format(format, std::forward<Args>(args)...)));
  }

  /// Sizes that shapes do not tell, or tell only together.
  void check_metadata() const {
    const auto& metadata = file_.metadata();
    if (const auto version = metadata.find(kCapturedFormat);
        version != metadata.end() && version->second != kCapturedVersion)
      fail("holds inputs of format version {}; this build reads version {}", version->second, kCapturedVersion);
    const std::pair<const char*, std::int64_t> sizes[] = {
        {"streams", w_.streams}, {"tokens", w_.tokens},     {"chunk", w_.chunk}, {"writes", w_.writes},
        {"reads", w_.reads},     {"head_dim", w_.head_dim}, {"slots", w_.slots}};
    for (const auto& [key, value] : sizes)
      if (const auto found = metadata.find(key); found != metadata.end() && found->second != std::to_string(value))
        fail("was made for {} = {}, but workload.{} is {}", key, found->second, key, value);
  }

  void check_names() const {
    std::vector<std::string> legal = kRequired;
    legal.insert(legal.end(), kOptional.begin(), kOptional.end());
    for (const std::string& name : file_.names())
      if (std::find(legal.begin(), legal.end(), name) == legal.end())
        fail("holds a tensor '{}' that is no input (inputs: {}){}", name, join(legal), did_you_mean(name, legal));
    for (const std::string& name : kRequired)
      if (!file_.contains(name))
        fail("lacks the tensor '{}' (needed: {}; may be missing: {})", name, join(kRequired), join(kOptional));
  }

  const StoredTensor& stored(const std::string& name, const std::vector<std::int64_t>& shape) const {
    const StoredTensor& tensor = file_.tensor(name);
    if (tensor.shape != shape)
      fail("{} has the shape [{}], but the workload asks for [{}]{}", name, fmt::join(tensor.shape, ", "),
           fmt::join(shape, ", "),
           name == "bank" || name == "d_final_bank" ? " (streams*slots, head_dim)" : " (chunks*streams, chunk, ..)");
    return tensor;
  }

  std::vector<std::int32_t> indices(const std::string& name, std::int64_t width) const {
    const StoredTensor& tensor = stored(name, {w_.chunks(), w_.chunk, width});
    if (tensor.type != StoredType::i32 && tensor.type != StoredType::i64)
      fail("{} is {}; legal: I32, I64", name, name_of(tensor.type));
    std::vector<std::int32_t> out(static_cast<std::size_t>(tensor.elements()));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t row =
          tensor.type == StoredType::i32 ? element<std::int32_t>(tensor, i) : element<std::int64_t>(tensor, i);
      if (row < 0 || row >= w_.rows())
        fail("{} names row {} at {}; rows lie in [0, {})", name, row, place(static_cast<std::int64_t>(i) / width),
             w_.rows());
      out[i] = static_cast<std::int32_t>(row);
    }
    return out;
  }

  template <typename T>
  static T element(const StoredTensor& tensor, std::size_t i) {
    T value;
    std::memcpy(&value, tensor.bytes.data() + i * sizeof(T), sizeof(T));
    return value;
  }

  /// Values as floats. `holds` is the dtype that the workload gives the tensor: a value that it cannot hold is refused
  /// rather than rounded, so that what runs is what was captured.
  std::vector<float> floats(const std::string& name, const std::vector<std::int64_t>& shape, DType holds) const {
    const StoredTensor& tensor = stored(name, shape);
    if (tensor.type != StoredType::f32 && tensor.type != StoredType::bf16)
      fail("{} is {}; legal: F32, BF16", name, name_of(tensor.type));
    std::vector<float> out(static_cast<std::size_t>(tensor.elements()));
    const std::int64_t width =
        out.empty() ? 1 : static_cast<std::int64_t>(out.size()) / shape.front() / (shape.size() > 2 ? shape[1] : 1);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = tensor.type == StoredType::f32 ? element<float>(tensor, i) : from_bf16(element<bf16_t>(tensor, i));
      const auto where = [&] { return place_in(name, shape, static_cast<std::int64_t>(i), width); };
      if (!std::isfinite(out[i])) fail("{} is {} at {}; every input is finite", name, out[i], where());
      if (holds == DType::bf16 && from_bf16(to_bf16(out[i])) != out[i])
        fail("{} is {} at {}, which bf16 cannot hold: round it before it is saved, or give the workload the dtype f32",
             name, out[i], where());
    }
    return out;
  }

  /// "stream 1, token 37" of row chunk*C + t.
  std::string place(std::int64_t row) const {
    const std::int64_t chunk = row / w_.chunk;
    return fmt::format("stream {}, token {}", chunk % w_.streams, chunk / w_.streams * w_.chunk + row % w_.chunk);
  }

  std::string place_in(const std::string& name, const std::vector<std::int64_t>& shape, std::int64_t i,
                       std::int64_t width) const {
    if (name == "bank" || name == "d_final_bank") return fmt::format("row {}, column {}", i / shape[1], i % shape[1]);
    if (shape.size() == 2) return place(i);
    return fmt::format("{}, element {}", place(i / width), i % width);
  }

  bool padding(std::int64_t row) const { return row / w_.chunk / w_.streams * w_.chunk + row % w_.chunk >= w_.tokens; }

  /// Rows of the own stream, distinct within a token.
  void check_slots(const std::string& name, const std::vector<std::int32_t>& rows, std::int64_t width) const {
    std::vector<std::pair<std::int32_t, std::int64_t>> seen(static_cast<std::size_t>(width));
    for (std::int64_t row = 0; row < rows_; ++row) {
      if (padding(row)) continue;
      const std::int64_t first = row / w_.chunk % w_.streams * w_.slots;
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int32_t index = rows[static_cast<std::size_t>(row * width + i)];
        if (index < first || index >= first + w_.slots)
          fail("{} names row {} at {}, entry {}; rows of that stream lie in [{}, {})", name, index, place(row), i,
               first, first + w_.slots);
        seen[static_cast<std::size_t>(i)] = {index, i};
      }
      std::sort(seen.begin(), seen.end());
      for (std::size_t i = 1; i < seen.size(); ++i)
        if (seen[i].first == seen[i - 1].first)
          fail("{} names slot {} twice at {} (entries {} and {}); slots within a token are distinct", name,
               seen[i].first - first, place(row), seen[i - 1].second, seen[i].second);
    }
  }

  void check_range(const std::string& name, const std::vector<float>& values, std::int64_t width, float low, float high,
                   const char* rule) const {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] < low || values[i] > high)
        fail("{} is {} at {}; {}", name, values[i], place(static_cast<std::int64_t>(i) / width), rule);
  }

  void check_padding(const SparseInputs& in, std::int64_t gates) const {
    const auto zero = [&](const std::string& name, const auto& values, std::int64_t width) {
      for (std::int64_t row = 0; row < rows_ && !values.empty(); ++row) {
        if (!padding(row)) continue;
        for (std::int64_t i = row * width; i < (row + 1) * width; ++i)
          if (values[static_cast<std::size_t>(i)] != 0)
            fail("{} is {} at {}, which is padding after the last of {} tokens and must be zero", name,
                 values[static_cast<std::size_t>(i)], place(row), w_.tokens);
      }
    };
    zero("k_idx", in.k_idx, w_.writes), zero("q_idx", in.q_idx, w_.reads);
    zero("k", in.k, w_.writes), zero("q", in.q, w_.reads);
    zero("g", in.g, gates), zero("v", in.v, w_.head_dim), zero("beta", in.beta, 1),
        zero("d_reading", in.d_reading, w_.head_dim);
  }

  const SparseWorkload& w_;
  SafetensorsFile file_;
  std::int64_t rows_;  ///< token rows, padding included
};

}  // namespace

SparseInputs load_captured_inputs(const SparseWorkload& workload) {
  validate(workload);
  return Loader(workload).load();
}

}  // namespace sdm
