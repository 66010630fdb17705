#include "kernels/solve/substitution.cuh"

namespace sdm::solve {
namespace {

// 8 rows: 8 independent chains a thread and 3 shared loads for 8 multiply-adds, still few registers.
constexpr int kBlockRows = 8;

}  // namespace

const Variant<Params> blocked = {
    .name = "blocked",
    .why = "any chunk; the faster one from about 16 tokens on",
    .refuse = refuse_rows<kBlockRows>,
    .launch = launch_rows<kBlockRows>,
    .describe = describe_rows<kBlockRows>,
};

}  // namespace sdm::solve
