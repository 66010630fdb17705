#include "run/conform.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "check/bitwise.h"
#include "io/golden_case.h"
#include "kernels/registry.h"
#include "numerics/order.h"
#include "run/dense_conform.h"

namespace sdm {
namespace {

DType dtype_of(StoredType type) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8, DType::u32})
    if (stored_type(dtype) == type) return dtype;
  throw UserError(fmt::format("unexpected tensor type {}", name_of(type)));
}

/// The arrays of one run of one stage on one backend: inputs uploaded from the file, outputs poisoned and compared with
/// their stored twins afterwards.
class StageArrays {
 public:
  StageArrays(Backend& backend, const SafetensorsFile& file) : backend_(backend), file_(file) {}
  ~StageArrays() {
    for (void* memory : owned_) backend_.release(memory);
  }
  StageArrays(const StageArrays&) = delete;
  StageArrays& operator=(const StageArrays&) = delete;

  void* in(const std::string& name) {
    const StoredTensor& stored = file_.tensor(name);
    return put(stored.bytes.data(), stored.bytes.size());
  }
  AnyPtr any(const std::string& name) { return {in(name), dtype_of(file_.tensor(name).type)}; }
  float* f32(const std::string& name) { return static_cast<float*>(in(name)); }
  Record* records(const std::string& name) { return static_cast<Record*>(in(name)); }
  /// Starts as `name` and must end as `result`.
  AnyPtr updated(const std::string& name, const std::string& result) {
    const AnyPtr array = any(name);
    results_.push_back({result, array.data, 1});
    return array;
  }
  /// Must become the stored `result`; starts as NaN, or zeroed where only some rows are written.
  void* out(const std::string& result, std::uint8_t fill = 0xFF, int planes = 1) {
    const std::size_t bytes = file_.tensor(result).bytes.size() * static_cast<std::size_t>(planes);
    void* memory = own(bytes);
    backend_.fill(memory, fill, bytes);
    results_.push_back({result, memory, planes});
    return memory;
  }
  float* out_f32(const std::string& result) { return static_cast<float*>(out(result)); }
  /// `planes` slice sums of f32 whose total, in slice order, must be the stored result.
  float* out_planes(const std::string& result, int planes) { return static_cast<float*>(out(result, 0xFF, planes)); }
  void* put(const void* host, std::size_t bytes) {
    void* memory = own(bytes);
    backend_.upload(memory, host, bytes);
    return memory;
  }

  void compare(ConformRow row, std::vector<ConformRow>& rows) {
    backend_.synchronize();
    for (const Result& result : results_) {
      const StoredTensor& stored = file_.tensor(result.name);
      std::vector<std::byte> actual(stored.bytes.size() * static_cast<std::size_t>(result.planes));
      backend_.download(actual.data(), result.data, actual.size());
      if (result.planes > 1) add_planes(actual, result.planes);
      const auto difference = compare_bits(dtype_of(stored.type), stored.shape, stored.bytes.data(), actual.data());
      row.tensor = result.name;
      row.verdict = difference ? ConformRow::Verdict::differs : ConformRow::Verdict::equal;
      row.detail = difference ? difference->sentence() : "";
      rows.push_back(row);
    }
  }

 private:
  struct Result {
    std::string name;
    void* data;
    int planes;
  };
  /// Adds the planes to the first one, in slice order.
  static void add_planes(std::vector<std::byte>& planes, int count) {
    auto* values = reinterpret_cast<float*>(planes.data());
    const std::size_t elements = planes.size() / sizeof(float) / static_cast<std::size_t>(count);
    for (std::size_t plane = 1; plane < static_cast<std::size_t>(count); ++plane)
      for (std::size_t i = 0; i < elements; ++i) values[i] = values[i] + values[plane * elements + i];
  }
  void* own(std::size_t bytes) { return owned_.emplace_back(backend_.allocate(std::max<std::size_t>(bytes, 16))); }

  Backend& backend_;
  const SafetensorsFile& file_;
  std::vector<void*> owned_;
  std::vector<Result> results_;
};

/// Payload, slots and windows of both sides, rebuilt on the host: the stored cases hold no windows.
struct HostGroups {
  struct Side {
    std::vector<std::uint32_t> payload;
    std::vector<std::int32_t> slot, position, match;
    std::vector<Window> window;
    Groups view() { return {payload.data(), slot.data(), position.data(), match.data(), window.data()}; }
    void resize(std::int64_t chunks, int n) {
      const auto size = static_cast<std::size_t>(chunks * n);
      payload.resize(size), slot.resize(size), position.resize(size), match.resize(size);
      window.resize(static_cast<std::size_t>(chunks * window_count(n)));
    }
  } writes, reads;
};

class Conformer {
 public:
  Conformer(const SafetensorsFile& file, Backend* gpu, Parallel& threads)
      : file_(file), golden_(read_golden_case(file)), gpu_(gpu), threads_(threads), host_(make_host_backend()) {}

  std::vector<ConformRow> run() {
    rebuild_groups();
    gather();
    write();
    gather_grad();
    undo();
    read_grad();
    return std::move(rows_);
  }

 private:
  /// Runs a stage over all steps on the replay and on every exact variant. `build` makes Params from arrays.
  template <typename Params, typename Build>
  void run_stage(const Stage<Params>& stage, bool reverse, Build&& build) {
    const auto run = [&](Backend& backend, const Variant<Params>* variant) {
      StageArrays arrays(backend, file_);
      Params params = build(arrays);
      ConformRow row{
          golden_.name, std::string(stage.name), variant ? std::string(variant->name) : "replay", {}, {}, {}};
      if (variant) {
        row.detail = variant->refuse(params, *backend.device());
        if (!row.detail.empty()) {
          row.verdict = ConformRow::Verdict::refused;
          rows_.push_back(row);
          return;
        }
      }
      for (int i = 0; i < golden_.dims.steps; ++i) {
        params.step = reverse ? golden_.dims.steps - 1 - i : i;
        if (variant)
          variant->launch(params, backend.launch_context()), backend.after_launch(stage.name, params.step);
        else
          stage.replay(params, threads_);
      }
      arrays.compare(row, rows_);
    };
    run(*host_, nullptr);
    if (!gpu_) return;
    for (const Variant<Params>* variant : stage.variants)
      if (variant->guarantee == Guarantee::exact) run(*gpu_, variant);
  }

  void compare_words(const char* tensor, std::int64_t per_chunk, const std::vector<std::int32_t>& actual, int stride,
                     int word) {
    const StoredTensor& stored = file_.tensor(tensor);
    std::vector<std::int32_t> expected(actual.size()), all(stored.bytes.size() / 4);
    std::memcpy(all.data(), stored.bytes.data(), stored.bytes.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = all[i * static_cast<std::size_t>(stride) + static_cast<std::size_t>(word)];
    const std::int64_t shape[] = {golden_.dims.chunks(), per_chunk};
    const auto difference = compare_bits(DType::i32, shape, expected.data(), actual.data());
    rows_.push_back({golden_.name, "group_entries", "replay", tensor,
                     difference ? ConformRow::Verdict::differs : ConformRow::Verdict::equal,
                     difference ? difference->sentence() : ""});
  }

  void rebuild_groups() {
    const Dims& d = golden_.dims;
    groups_.writes.resize(d.chunks(), d.write_positions());
    groups_.reads.resize(d.chunks(), d.read_positions());
    StageArrays arrays(*host_, file_);
    group_entries::replay({.dims = d,
                           .k_idx = arrays.any("k_idx"),
                           .q_idx = arrays.any("q_idx"),
                           .writes = groups_.writes.view(),
                           .reads = groups_.reads.view()},
                          threads_);
    const auto as_words = [](const std::vector<std::uint32_t>& payload) {
      return std::vector<std::int32_t>(payload.begin(), payload.end());
    };
    compare_words("write_payload", d.write_positions(), as_words(groups_.writes.payload), 1, 0);
    compare_words("read_payload", d.read_positions(), as_words(groups_.reads.payload), 1, 0);
    compare_words("write_record", d.write_positions(), groups_.writes.slot, 4, 1);
    compare_words("read_record", d.read_positions(), groups_.reads.slot, 4, 1);
  }

  const Window* windows(StageArrays& arrays, const HostGroups::Side& side) const {
    return static_cast<const Window*>(arrays.put(side.window.data(), side.window.size() * sizeof(Window)));
  }

  template <typename Word>
  const Word* words(StageArrays& arrays, const std::vector<Word>& side) const {
    return static_cast<const Word*>(arrays.put(side.data(), side.size() * sizeof(Word)));
  }

  void gather() {
    const GoldenCase::Kernel* kernel = golden_.kernel("gather");
    if (!kernel) return;
    run_stage(registry().gather, false, [&](StageArrays& a) {
      return gather::Params{.dims = golden_.dims,
                            .groups = kernel->groups,
                            .bank = a.any("bank"),
                            .k_idx = a.any("k_idx"),
                            .q_idx = a.any("q_idx"),
                            .k_weight = a.any("k_weight"),
                            .q_weight = a.any("q_weight"),
                            .retrieved = a.out_f32("out_retrieved"),
                            .inter = a.out_f32("out_inter")};
    });
  }

  void write() {
    if (!golden_.kernel("write")) return;
    run_stage(registry().write, false, [&](StageArrays& a) {
      return write::Params{.dims = golden_.dims,
                           .bank = a.updated("bank", "out_bank"),
                           .delta_v = a.f32("delta_v"),
                           .record = a.records("write_record"),
                           .window = windows(a, groups_.writes),
                           .position = words(a, groups_.writes.position),
                           .payload = words(a, groups_.writes.payload),
                           .snapshot = {SnapshotFormat::raw, a.out("out_snapshot", 0), nullptr}};
    });
  }

  void gather_grad() {
    const GoldenCase::Kernel* kernel = golden_.kernel("gwr");
    if (!kernel) return;
    run_stage(registry().gather_grad, false, [&](StageArrays& a) {
      return gather_grad::Params{.dims = golden_.dims,
                                 .groups = kernel->groups,
                                 .grad = a.any("grad"),
                                 .k_idx = a.any("k_idx"),
                                 .write_weight = a.f32("write_w"),
                                 .delta_v = a.f32("delta_v"),
                                 .d_dv_w = a.out_f32("out_d_delta_v"),
                                 .d_ww_planes = a.out_f32("out_d_k_pd_planes")};
    });
  }

  void undo() {
    if (!golden_.kernel("pa")) return;
    run_stage(registry().undo, true, [&](StageArrays& a) {
      return undo::Params{.dims = golden_.dims,
                          .grad = a.updated("grad", "out_pa_grad"),
                          .bank = a.updated("out_bank", "out_pa_bank"),
                          .snapshot = {SnapshotFormat::raw, a.in("out_snapshot"), nullptr},
                          .d_dva = a.f32("d_dva"),
                          .beta = a.f32("beta"),
                          .record = a.records("undo_record"),
                          .window = windows(a, groups_.writes),
                          .d_kw_planes = a.out_f32("out_pa_d_k_eff_planes"),
                          .d_decay_planes = a.out_f32("out_pa_g_decay_planes")};
    });
  }

  void read_grad() {
    if (!golden_.kernel("gds")) return;
    run_stage(registry().read_grad, true, [&](StageArrays& a) {
      return read_grad::Params{.dims = golden_.dims,
                               .bank = a.any("bank"),
                               .grad = a.updated("grad", "out_gds_grad"),
                               .q_idx = a.any("q_idx"),
                               .d_reading = a.f32("grad_readings"),
                               .record = a.records("read_record"),
                               .window = windows(a, groups_.reads),
                               .d_qw_planes = a.out_planes("out_d_q_w", slice_count(golden_.dims.head_dim))};
    });
  }

  const SafetensorsFile& file_;
  GoldenCase golden_;
  Backend* gpu_;
  Parallel& threads_;
  std::unique_ptr<Backend> host_;
  HostGroups groups_;
  std::vector<ConformRow> rows_;
};

}  // namespace

std::vector<ConformRow> conform_file(const std::string& path, Backend* gpu, Parallel& threads) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  return is_dense_case(file) ? conform_dense(file, gpu, threads) : Conformer(file, gpu, threads).run();
}

std::vector<std::string> conform_files(const std::string& path) {
  namespace fs = std::filesystem;
  if (!fs::exists(path)) throw UserError(fmt::format("{}: no such file or folder", path));
  if (!fs::is_directory(path)) return {path};
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path().string());
  if (files.empty()) throw UserError(fmt::format("{}: no *.safetensors file in this folder", path));
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace sdm
