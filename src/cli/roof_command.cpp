#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "cli/commands.h"
#include "measure/roof.h"

namespace sdm {

std::vector<RoofPoint> roofs_for(Backend& backend, const std::vector<Case>& cases) {
  if (!backend.device()) return {};
  std::set<std::int64_t> row_bytes;
  for (const Case& c : cases)
    if (const auto* sparse = std::get_if<SparseWorkload>(&c.workload); sparse && c.timed)
      for (const DType dtype : {sparse->bank_dtype, sparse->grad_dtype})
        row_bytes.insert(sparse->head_dim * static_cast<std::int64_t>(size_of(dtype)));
  if (row_bytes.empty()) return {};
  return measure_roof(backend, {row_bytes.begin(), row_bytes.end()},
                      0.2 * static_cast<double>(1 + 2 * row_bytes.size()));
}

ExitCode measure_roofs(const RoofOptions& options) {
  const std::unique_ptr<Backend> backend = open_device(options.device, false);
  const std::vector<RoofPoint> points = measure_roof(
      *backend, options.row_bytes, options.seconds * static_cast<double>(1 + 2 * options.row_bytes.size()));
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::string text = fmt::format("{}\n{:<16} {:>10} {:>12}\n", backend->info().name, "access", "row bytes", "GB/s");
  for (const RoofPoint& point : points) {
    json.push_back(
        {{"kind", point.kind}, {"row_bytes", point.row_bytes}, {"bytes_per_second", point.bytes_per_second}});
    text += fmt::format("{:<16} {:>10} {:>12.1f}\n", point.kind, point.row_bytes, point.bytes_per_second * 1e-9);
  }
  emit(options.common, options.json ? json.dump(2) + "\n" : text);
  return ExitCode::ok;
}

}  // namespace sdm
