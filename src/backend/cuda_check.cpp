#include "backend/cuda_check.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/error.h"

namespace sdm::cuda {

bool is_sticky(cudaError_t error) {
  constexpr cudaError_t kSticky[] = {cudaErrorECCUncorrectable,
                                     cudaErrorNvlinkUncorrectable,
                                     cudaErrorContained,
                                     cudaErrorIllegalAddress,
                                     cudaErrorLaunchTimeout,
                                     cudaErrorContextIsDestroyed,
                                     cudaErrorAssert,
                                     cudaErrorHardwareStackError,
                                     cudaErrorIllegalInstruction,
                                     cudaErrorMisalignedAddress,
                                     cudaErrorInvalidAddressSpace,
                                     cudaErrorInvalidPc,
                                     cudaErrorLaunchFailure,
                                     cudaErrorTensorMemoryLeak,
                                     cudaErrorMpsClientTerminated,
                                     cudaErrorMpsRpcFailure,
                                     cudaErrorExternalDevice,
                                     cudaErrorUnknown};
  return std::ranges::find(kSticky, error) != std::end(kSticky);
}

namespace {

/// The path from the source tree's src/ on: messages do not depend on where the tool was built.
std::string_view within_sources(std::string_view file) {
  const std::size_t at = file.rfind("src/");
  return at == std::string_view::npos ? file : file.substr(at);
}

}  // namespace

void fail(cudaError_t error, const char* what, const char* file, int line, const std::string& detail) {
  (void)cudaGetLastError();
  std::string text = fmt::format("{} failed: {} ({})", what, cudaGetErrorName(error), cudaGetErrorString(error));
  if (!detail.empty()) text += "; " + detail;
  const bool sticky = is_sticky(error);
  if (sticky) text += "; the CUDA context is lost";
  throw CudaError(text + fmt::format(" [{}:{}]", within_sources(file), line), error == cudaErrorMemoryAllocation,
                  sticky);
}

Stream make_stream() {
  cudaStream_t stream = nullptr;
  SDM_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

Event make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  SDM_CUDA(cudaEventCreateWithFlags(&event, flags));
  return Event(event);
}

}  // namespace sdm::cuda
