#include "kernels/gather/row_gather.cuh"

namespace sdm::gather {

constinit const Variant<Params> rows{
    .name = "rows",
    .why = "a row group per part of a token's entries, rows straight from the bank to registers",
    .guarantee = Guarantee::exact,
    .refuse = device_rows::refuse_rows,
    .launch = device_rows::launch_rows<false>,
    .describe = device_rows::describe_rows,
};

}  // namespace sdm::gather
