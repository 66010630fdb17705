#include "kernels/variants.h"

namespace sdm {

Variants variants() { return {}; }

}  // namespace sdm
