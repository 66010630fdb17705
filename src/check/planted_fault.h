#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backend/executor.h"
#include "run/sparse_session.h"

namespace sdm {

/// A fault of `run --plant`: it spoils a little of what a stage leaves, to prove that the check which claims such
/// faults notices (docs/planted_faults.md). It works on the arrays of any backend, host or GPU; passes of a spoiled
/// session are launched one by one, never as a recording.
class PlantedFault {
 public:
  /// In place of a check: the fault ends or stops the case's process, and `run --isolate` must lose no other case.
  static constexpr std::string_view kIsolate = "--isolate";

  struct Kind {
    std::string_view name, stage;  ///< of the option; which stage is spoiled
    std::string_view check;        ///< what must notice, or kIsolate
    std::string_view what;         ///< the fault in words
    bool needs_gpu = false;        ///< the check that notices cannot run without one
    bool before = false;           ///< it also acts before the stage
    void (*act)(PlantedFault&, SparseSession&, const StageCall&, bool before) = nullptr;
  };
  static std::span<const Kind> all();
  /// Null: there is no fault of that name.
  static const Kind* find(std::string_view name);

  explicit PlantedFault(const Kind& kind) : kind_(kind) {}
  const Kind& kind() const { return kind_; }

  void before(SparseSession& session, const StageCall& call) {
    if (kind_.before && call.stage == kind_.stage) kind_.act(*this, session, call, true);
  }
  void after(SparseSession& session, const StageCall& call) {
    if (call.stage == kind_.stage) kind_.act(*this, session, call, false);
  }

  std::optional<LoadKind> beside;  ///< the load that runs now: faults that show only then ask for it
  std::vector<std::byte> saved;    ///< between before and after
  int passes = 0;                  ///< forwards so far
  const void* first_place = nullptr;

 private:
  const Kind& kind_;
};

/// Tells a fault, if there is one, what runs beside the case while this object lives.
class FaultSurroundings {
 public:
  FaultSurroundings(PlantedFault* fault, LoadKind kind) : fault_(fault) {
    if (fault_) fault_->beside = kind;
  }
  ~FaultSurroundings() {
    if (fault_) fault_->beside.reset();
  }
  FaultSurroundings(const FaultSurroundings&) = delete;
  FaultSurroundings& operator=(const FaultSurroundings&) = delete;

 private:
  PlantedFault* fault_;
};

}  // namespace sdm
