#include "io/golden_dense.h"

#include <fmt/format.h>

#include "base/error.h"
#include "io/case_json.h"

namespace sdm {
namespace {

/// A multiple of `multiple` up to `most`.
std::int32_t extent(const case_json::Json& json, const char* key, std::int32_t multiple, std::int32_t most,
                    const std::string& path) {
  const std::int64_t value = case_json::integer(json, key, multiple, most, path);
  if (value % multiple != 0)
    throw UserError(fmt::format("{}: case.{} is {}, a multiple of {} is needed", path, key, value, multiple));
  return static_cast<std::int32_t>(value);
}

}  // namespace

GoldenDense read_golden_dense(const SafetensorsFile& file) {
  constexpr std::int32_t kMost = 1 << 20;
  const std::string& path = file.path();
  const case_json::Json json = case_json::read(file);
  GoldenDense golden{.name = case_json::text(json, "name", path),
                     .workload = {.batch = extent(json, "B", 1, kMost, path),
                                  .tokens = extent(json, "T", DenseWorkload::kChunk, kMost, path),
                                  .heads = extent(json, "HV", 1, kMost, path),
                                  .key_dim = extent(json, "K", 64, 128, path),
                                  .value_dim = extent(json, "V", 64, kMost, path),
                                  .dq = DqMode::ordered}};
  DenseWorkload& w = golden.workload;
  w.io_dtype = file.tensor("w").type == StoredType::f16 ? DType::f16 : DType::bf16;
  const std::int64_t b = w.batch, t = w.tokens, h = w.heads, k = w.key_dim, v = w.value_dim;
  const auto half = [&](const char* tensor, std::initializer_list<std::int64_t> shape) {
    return file.read<std::uint16_t>(tensor, w.io_dtype, shape);
  };
  golden.inputs = {.w = half("w", {b, t, h, k}),
                   .kg = half("kg", {b, t, h, k}),
                   .u = half("u", {b, t, h, v}),
                   .d_out = half("do", {b, t, h, v}),
                   .g2 = file.read<float>("g2", DType::f32, {b, t, h, k}),
                   .h0 = file.read<float>("h0", DType::f32, {b, h, k, v})};
  golden.checkpoints = half("out_checkpoints", {b, w.chunks(), h, k, v});
  golden.v_new = half("out_v_new", {b, t, h, v});
  return golden;
}

}  // namespace sdm
