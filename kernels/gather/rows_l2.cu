#include "kernels/gather/row_gather.cuh"

namespace sdm::gather {
namespace {

std::string refuse(const Params& p, const Device& device) {
  const std::int64_t row_bytes = snapshot_row_bytes(SnapshotFormat::raw, p.dims.head_dim, p.bank.dtype);
  if (row_bytes % 16 != 0)
    return "the L2 hint goes with 16-byte loads; a row has " + std::to_string(row_bytes) +
           " bytes, a multiple of 16 would be needed";
  return device_rows::refuse_rows(p, device);
}

}  // namespace

constinit const Variant<Params> rows_l2{
    .name = "rows_l2",
    .why = "`rows` with rows marked to leave L2 first: for banks far larger than L2, whose rows are read once",
    .guarantee = Guarantee::exact,
    .refuse = refuse,
    .launch = device_rows::launch_rows<true>,
    .describe = device_rows::describe_rows,
};

}  // namespace sdm::gather
