#include "io/golden_case.h"

#include "base/error.h"
#include "io/case_json.h"

namespace sdm {
namespace {

using case_json::Json, case_json::field, case_json::integer, case_json::text;

DType real_dtype(const Json& object, const char* key, const std::string& path) {
  const std::string name = text(object, key, path);
  if (name == "bf16") return DType::bf16;
  if (name == "f32") return DType::f32;
  throw UserError(fmt::format("{}: case.{} is \"{}\", bf16 or f32 is needed", path, key, name));
}

Dims read_dims(const Json& json, const std::string& path) {
  const auto i32 = [&](const char* key, std::int64_t low, std::int64_t high) {
    return static_cast<std::int32_t>(integer(json, key, low, high, path));
  };
  Dims dims;
  dims.streams = i32("P", 1, 1 << 20);
  dims.steps = i32("steps", 1, 1 << 20);
  dims.chunk = i32("C", 2, 256);
  dims.writes = i32("W", 1, 256);
  dims.reads = i32("R", 1, 256);
  dims.head_dim = i32("head_dim", 1, 1 << 20);
  dims.slots = integer(json, "slots_per_stream", 1, (std::int64_t{1} << 31) / dims.streams, path);
  dims.tokens = static_cast<std::int32_t>(integer(json, "tokens", std::int64_t{dims.steps - 1} * dims.chunk + 1,
                                                  std::int64_t{dims.steps} * dims.chunk, path));
  return dims;
}

}  // namespace

const GoldenCase::Kernel* GoldenCase::kernel(std::string_view kernel_name) const {
  for (const Kernel& kernel : kernels)
    if (kernel.name == kernel_name) return &kernel;
  return nullptr;
}

GoldenCase read_golden_case(const SafetensorsFile& file) {
  const Json json = case_json::read(file);
  GoldenCase golden;
  golden.name = text(json, "name", file.path());
  golden.dims = read_dims(json, file.path());
  golden.bank = real_dtype(json, "bank", file.path());
  golden.grad = real_dtype(json, "grad", file.path());
  const Json& kernels = field(json, "kernels", file.path());
  if (!kernels.is_array()) throw UserError(fmt::format("{}: case.kernels is no list", file.path()));
  for (const Json& kernel : kernels) {
    GoldenCase::Kernel k;
    k.name = text(kernel, "kernel", file.path());
    if (kernel.contains("groups")) k.groups = static_cast<std::int32_t>(integer(kernel, "groups", 1, 256, file.path()));
    if (kernel.contains("planes"))
      k.planes = static_cast<std::int32_t>(integer(kernel, "planes", 1, 1 << 20, file.path()));
    golden.kernels.push_back(k);
  }
  return golden;
}

}  // namespace sdm
