#include <fmt/format.h>

#include <cstdio>
#include <new>

#include "base/error.h"
#include "base/interrupt.h"
#include "cli/commands.h"
#include "cli/options.h"

namespace {

int fail(const char* what, sdm::ExitCode code) {
  fmt::print(stderr, "sdm-bench: {}\n", what);
  return static_cast<int>(code);
}

}  // namespace

/// The only catch blocks that turn an exception into an exit code.
int main(int argc, char** argv) {
  using sdm::ExitCode;
#if defined(__x86_64__) && defined(__AVX2__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return fail("this build needs a processor with AVX2 and FMA; configure with -DSDM_HOST_ARCH= for an older one",
                ExitCode::could_not_run);
#endif
  sdm::install_interrupt_handlers();
  try {
    return sdm::run_command_line(argc, argv);
  } catch (const sdm::UserError& error) {
    return fail(error.what(), ExitCode::usage);
  } catch (const sdm::NoGpu& error) {
    return fail(error.what(), ExitCode::no_gpu);
  } catch (const sdm::Unsupported& error) {
    return fail(error.what(), ExitCode::could_not_run);
  } catch (const sdm::CudaError& error) {
    return fail(error.what(), error.sticky ? ExitCode::context_lost : ExitCode::could_not_run);
  } catch (const std::bad_alloc&) {
    return fail("host memory is exhausted", ExitCode::could_not_run);
  } catch (const std::exception& error) {
    return fail(error.what(), ExitCode::could_not_run);
  }
}
