// Stands for tcgen05_sm100.cu in builds without sm_100a: the variant is listed, and says why it does not run.
#include "kernels/dense_rescan/dense_rescan.h"

namespace sdm::dense_rescan {

const Variant<Params> tcgen05 = {
    .name = "tcgen05",
    .why = "Blackwell (sm_100a): not in this build",
    .guarantee = Guarantee::repeatable,
    .automatic = false,
    .refuse = [](const Params&, const Device&) -> std::string {
      return "tcgen05 is not in this build: it wants CUDA 12.8 or later and 100 among SDM_CUDA_ARCHS";
    },
};

}  // namespace sdm::dense_rescan
