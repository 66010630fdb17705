#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/arena.h"
#include "backend/executor.h"
#include "config/config.h"
#include "pipeline/parts.h"

namespace sdm {

/// stage -> tensor -> XXH3-128 hex of what the stage left in the tensor.
using Digests = std::map<std::string, std::map<std::string, std::string>>;

enum class Pass : std::uint8_t { forward, backward };
constexpr std::string_view name_of(Pass pass) { return pass == Pass::forward ? "forward" : "backward"; }

/// A sparse workload, resident on one backend: buffers, plan, and the two passes. Results are deterministic; a session
/// can be restored and run again any number of times.
class SparseSession {
 public:
  /// Allocates and loads the inputs; restore() before the first pass makes the zeros that stages may read and do not
  /// write. Throws Unsupported where no variant accepts the case, CudaError or std::bad_alloc
  /// where memory is short. `stages`: other stages than the tool's own, with which tests prove that checks notice
  /// faults.
  SparseSession(const SparseWorkload& workload, const SparseInputs& inputs, Backend& backend, Parallel& threads,
                const std::map<std::string, std::string>& variants, const Registry& stages = registry());

  ~SparseSession();
  SparseSession(const SparseSession&) = delete;
  SparseSession& operator=(const SparseSession&) = delete;

  /// Bytes of device memory that a session takes.
  static std::uint64_t bytes_for(const SparseWorkload& workload);

  /// Banks to their initial contents, outputs to `poison` (lower triangles; zeros above), snapshots to zero, guards
  /// intact.
  void restore(std::uint8_t poison = Arena::kPoisonByte);
  /// Inputs to their initial contents.
  void load_inputs();
  /// Only what the passes need: banks to their initial contents.
  void restore_banks();

  void run(Pass pass, StageObserver* observer = nullptr) { run_only(pass, {}, observer); }
  /// How passes are launched from now on; bits never change. `automatic`: either pass fused where that pays, else a
  /// graph whose steps run in branches, of dependent launches where the device has them. Throws Unsupported with the
  /// reason where the backend (or, in mode fused, the case) cannot.
  void set_launch(LaunchMode mode);
  /// In words, for the result.
  std::string launch_name() const;
  /// Any pass is: its kernel needs all of its CTAs on the device at once.
  bool fused() const { return fused_.forward || fused_.backward; }
  bool recorded() const { return recorded_; }
  /// Moves all tensors to other memory (as much again is needed meanwhile); their contents are undefined until
  /// restore(). Recordings are updated by their next run.
  void relocate();
  /// Parts of recordings that were updated in place, and those that had to be instantiated again.
  struct Updates {
    int in_place = 0, anew = 0;
  };
  const Updates& updates() const { return updates_; }
  int host_threads() const { return threads_.threads(); }

  /// False where the workload saves nothing for the backward: that pass is then empty.
  bool has_backward() const { return buffers_.workload.snapshot != SnapshotFormat::none; }
  /// The calls of one stage alone, for timing; all of them where `stage` is empty.
  void run_only(Pass pass, std::string_view stage, StageObserver* observer);
  /// The forward's stages before its steps, as they run in it.
  void run_prepare();
  void run_training_step(StageObserver* observer = nullptr) {
    run(Pass::forward, observer);
    run(Pass::backward, observer);
  }

  /// Digests of everything that the stages of `pass` left, the banks included (forward: bank under write; backward:
  /// bank under undo, grad under read_grad). To be called right after the pass.
  Digests digests(Pass pass) const;
  std::string digest(const Tensor& tensor) const;

  /// A copy of a tensor on the host.
  std::vector<std::byte> download(const Tensor& tensor) const;
  /// The same as floats; the tensor must be f32 or bf16.
  std::vector<float> download_floats(const Tensor& tensor) const;

  const SparseBuffers& buffers() const { return buffers_; }
  const SparsePlan& plan() const { return plan_; }
  Arena& arena() { return *arena_; }
  Backend& backend() const { return backend_; }
  std::map<std::string, ResolvedVariant> resolved() const { return describe(plan_, buffers_, context_); }
  const Geometry& geometry() const { return context_.geometry; }
  /// Recordings are made anew: another geometry may be another kernel, which no update in place takes.
  void set_geometry(const Geometry& geometry) {
    context_.geometry = geometry;
    set_launch(launch_);
  }
  /// Reads the bank's initial contents of elements [first, first+count) in its own dtype.
  void initial_bank(BankKind kind, std::int64_t first, std::int64_t count, void* out) const;
  /// The whole of it, widened to floats.
  std::vector<float> initial_floats(BankKind kind) const;

 private:
  void load_bank(const Tensor& tensor, BankKind kind);
  /// Of a tensor of role `lower`: zeros above the diagonals.
  void poison_lower(const Tensor& tensor, std::uint8_t poison);
  void launch_pass(Pass pass, std::string_view stage, StageObserver* observer);
  std::vector<PassPart> recorded_parts(Pass pass) const;
  /// Passes whose steps are one kernel.
  struct Fused {
    bool forward = false, backward = false;
  };
  Fused automatically_fused() const;
  std::string fused_name() const;
  std::string graph_name() const;
  /// A pass's parts, replayed one after the other.
  struct Recorded {
    std::vector<std::unique_ptr<Recording>> parts;
    bool stale = false;  ///< addresses have changed since
  };
  const Recorded& up_to_date(Pass pass);
  void generate_bank(const Tensor& tensor, BankKind kind);

  const SparseInputs& inputs_;
  Backend& backend_;
  bool recorded_ = false;                  ///< passes are recorded once and replayed: as a whole, or (plan) by step
  LaunchMode launch_ = LaunchMode::eager;  ///< as asked for
  Fused fused_;
  std::uint32_t* counters_ = nullptr;  ///< device memory of the fused kernels, made when first needed
  std::map<Pass, Recorded> recordings_;
  Updates updates_;
  Parallel& threads_;
  LaunchContext context_;
  bool all_automatic_;  ///< no variant was asked for by name
  SparseBuffers buffers_;
  SparsePlan plan_;
  PlantedFault* fault_;  ///< null: honest
  std::unique_ptr<Arena> arena_;
  std::map<BankKind, void*>
      pristine_;  ///< device copies of banks that came from the host, made at the first restore where memory allows
};

}  // namespace sdm
