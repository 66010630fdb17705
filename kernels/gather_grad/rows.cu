#include "kernels/gather_grad/row_grad.cuh"

namespace sdm::gather_grad {

constinit const Variant<Params> rows{
    .name = "rows",
    .why = "a row group per part of a token's entries, sums and dots of a row while it is in registers",
    .guarantee = Guarantee::exact,
    .refuse = device_rows::refuse_rows,
    .launch = device_rows::launch_rows<16>,
    .describe = device_rows::describe_rows<16>,
};

}  // namespace sdm::gather_grad
