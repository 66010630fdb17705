// What the fused mode refuses, from sizes, types and device facts.
#include "kernels/common/row_plan.h"
#include "kernels/fused/team.h"

namespace sdm::fused {
namespace {

std::string refuse_shapes(const Dims& dims, DType rows, const char* whose) {
  const std::int64_t bytes = dims.head_dim * static_cast<std::int64_t>(size_of(rows));
  if (bytes % 16 != 0)
    return std::string("rows of the ") + whose + " have " + std::to_string(bytes) +
           " bytes; a multiple of 16 would be needed";
  if (dims.chunk % 4 != 0)
    return "a chunk has " + std::to_string(dims.chunk) + " tokens; a multiple of 4 would be needed";
  return "";
}

/// Arrivals, and the largest (stream, slice) grid of any phase, must fit 32 bits.
std::string refuse_items(const Dims& dims) {
  if (dims.steps >= (1 << 20))  // times the CTAs of a team, as arrivals are counted, below 2^31
    return std::to_string(dims.steps) + " steps; at most 1048575 are supported";
  const std::int64_t items = std::int64_t{dims.streams} * dims.chunk * ((dims.head_dim + 31) / 32);
  if (items < (std::int64_t{1} << 30)) return "";
  return "a step has " + std::to_string(items) + " pieces of work; fewer than 1073741824 are supported";
}

bool quantizes(SnapshotFormat format) { return format == SnapshotFormat::fp8 || format == SnapshotFormat::int4; }

}  // namespace

std::size_t counter_bytes(const Dims& dims) {
  return static_cast<std::size_t>(dims.streams) * kMostPhases * kCounterStride * sizeof(std::uint32_t);
}

std::string refuse(const Forward& pass, const Device& device) {
  const Dims& dims = pass.gather.dims;
  const SnapshotFormat format = pass.write.snapshot.format;
  if (std::string reason = refuse_shapes(dims, pass.gather.bank.dtype, "bank"); !reason.empty()) return reason;
  if (std::string reason = refuse_items(dims); !reason.empty()) return reason;
  if (std::string reason = refuse_row_plan(dims, pass.gather.groups, std::max(dims.writes, dims.reads));
      !reason.empty())
    return reason;
  const std::size_t limit = shared_limit(device, kCtasPerMultiprocessor);
  const int columns = write_columns(dims, limit);
  if (write_shared_bytes(dims, columns) > limit)
    return "write keeps 64 columns of a chunk's token rows in shared memory (" +
           std::to_string(write_shared_bytes(dims, columns)) + " bytes); two CTAs a multiprocessor leave each " +
           std::to_string(limit);
  if (quantizes(format) && dims.head_dim > columns)
    return "it quantizes rows of at most " + std::to_string(columns) + " columns, not " +
           std::to_string(dims.head_dim) + ": a row's scale needs its largest magnitude";
  if (format == SnapshotFormat::bf16 && pass.gather.bank.dtype != DType::f32)
    return "bf16 snapshots are kept of f32 banks only";
  return "";
}

std::string refuse(const Backward& pass, const Device& device) {
  const Dims& dims = pass.undo.dims;
  const DType bank = pass.undo.bank.dtype, grad = pass.undo.grad.dtype;
  if (std::string reason = refuse_shapes(dims, grad, "gradient"); !reason.empty()) return reason;
  if (std::string reason = refuse_items(dims); !reason.empty()) return reason;
  if (std::string reason = refuse_row_plan(dims, pass.gather_grad.groups, dims.writes); !reason.empty()) return reason;
  if (pass.gather_grad.copies)
    return "gather_grad's own kernels alone copy gradient rows; set workload.gradient_copy to false";
  if (bank == DType::f32 && grad == DType::bf16)
    return "the gradient of an f32 bank is kept in f32, not bf16; set grad_dtype to f32";
  if (quantizes(pass.undo.snapshot.format) && (bank != DType::bf16 || grad != DType::bf16))
    return "it rolls back to fp8 and int4 snapshots where bank and gradient are bf16; other types need another mode";
  constexpr int kWidestSlot = 32;  // gradient and bank rows of f32
  const std::size_t limit = shared_limit(device, kCtasPerMultiprocessor);
  const WalkShape walk = cut_walk(undo_needs(dims, kWidestSlot), TeamShape{}, limit);
  if (walk.warps < kWarps || walk.shared_bytes > limit)
    return "the rows in flight of " + std::to_string(kWarps) + " warps do not fit " + std::to_string(limit) +
           " bytes of shared memory";
  return "";
}

}  // namespace sdm::fused
