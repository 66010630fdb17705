#include "base/error.h"

namespace sdm {

void fail_invariant(const char* condition, const char* file, int line, const std::string& detail) {
  throw InternalError(
      fmt::format("internal error: {} ({} at {}:{}); please report this", detail, condition, file, line));
}

}  // namespace sdm
