#include "kernels/solve/substitution.cuh"

namespace sdm::solve {

const Variant<Params> columns = {
    .name = "columns",
    .why = "the plain form: one row after the other",
    .refuse = refuse_rows<1>,
    .launch = launch_rows<1>,
    .describe = describe_rows<1>,
};

}  // namespace sdm::solve
