#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace sdm {

/// What a user can mend: bad flags, configs, files. One clear sentence that names the legal values. Exit code 2.
struct UserError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A case that is well formed but cannot run here (shape, dtype, device, memory). The case is skipped with this reason.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A failed CUDA call. `sticky`: the context is lost and no further device work is possible in this process.
struct CudaError : std::runtime_error {
  CudaError(const std::string& what, bool out_of_memory_, bool sticky_)
      : std::runtime_error(what), out_of_memory(out_of_memory_), sticky(sticky_) {}
  bool out_of_memory;
  bool sticky;
};

/// A broken invariant of the program itself, never a user mistake.
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_invariant(const char* condition, const char* file, int line, const std::string& detail);

}  // namespace sdm

/// Checks an invariant in every build type; the text after the condition is a fmt format with arguments.
#define SDM_REQUIRE(condition, ...)                                                      \
  do {                                                                                   \
    if (!(condition)) [[unlikely]]                                                       \
      ::sdm::fail_invariant(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)
