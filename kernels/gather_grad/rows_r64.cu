#include "kernels/gather_grad/row_grad.cuh"

namespace sdm::gather_grad {

constinit const Variant<Params> rows_r64{
    .name = "rows_r64",
    .why = "`rows` in 64 registers: four CTAs of 256 threads an SM, for steps with more threads than one wave holds",
    .guarantee = Guarantee::exact,
    .refuse = device_rows::refuse_rows,
    .launch = device_rows::launch_rows<8>,
    .describe = device_rows::describe_rows<8>,
};

}  // namespace sdm::gather_grad
