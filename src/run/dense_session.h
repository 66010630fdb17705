#pragma once
#include <map>
#include <memory>
#include <string>

#include "backend/arena.h"
#include "backend/executor.h"
#include "kernels/registry.h"
#include "oracle/dense.h"
#include "pipeline/dense_buffers.h"

namespace sdm {

/// A dense workload, resident on one backend. Runs of a session start from the same inputs; outputs of a deterministic
/// variant repeat.
class DenseSession {
 public:
  /// Allocates and loads the inputs. Throws Unsupported where no variant accepts the case, CudaError or std::bad_alloc
  /// where memory is short. `stages`: other stages than the tool's own, with which tests prove that checks notice
  /// faults; they must outlive the session.
  DenseSession(const DenseWorkload& workload, const DenseInputs& inputs, Backend& backend, Parallel& threads,
               const std::map<std::string, std::string>& variants, const Registry& stages = registry());
  DenseSession(const DenseSession&) = delete;
  DenseSession& operator=(const DenseSession&) = delete;

  static std::uint64_t bytes_for(const DenseWorkload& workload);

  /// Outputs to `poison`, guards intact.
  void restore(std::uint8_t poison = Arena::kPoisonByte);
  void run(StageObserver* observer = nullptr);

  /// Tensor -> digest of every output.
  std::map<std::string, std::string> digests() const;
  /// The digest of all inputs as they lie in the backend's memory.
  std::string inputs_digest() const;
  /// The outputs of one stream in double.
  oracle::DenseStates states(std::int64_t stream) const;

  const DenseBuffers& buffers() const { return buffers_; }
  const StagePick<dense_rescan::Params>& pick() const { return pick_; }
  Guarantee guarantee() const { return pick_.variant ? pick_.variant->guarantee : Guarantee::exact; }
  ResolvedVariant resolved() const;
  Arena& arena() { return *arena_; }
  Backend& backend() const { return backend_; }
  void set_geometry(const Geometry& geometry) { context_.geometry = geometry; }
  const Geometry& geometry() const { return context_.geometry; }

 private:
  void load_inputs(const DenseInputs& inputs);

  Backend& backend_;
  Parallel& threads_;
  LaunchContext context_;
  DenseBuffers buffers_;
  StagePick<dense_rescan::Params> pick_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace sdm
