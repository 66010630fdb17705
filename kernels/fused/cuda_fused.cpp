#include "kernels/fused/passes.h"

namespace sdm::fused {
namespace {

std::string apply(const Forward& pass, const LaunchContext& context, Action action) {
  return pass.gather.bank.dtype == DType::bf16 ? forward_bf16(pass, context, action)
                                               : forward_f32(pass, context, action);
}
std::string apply(const Backward& pass, const LaunchContext& context, Action action) {
  if (pass.undo.bank.dtype == DType::f32) return backward_f32(pass, context, action);
  return pass.undo.grad.dtype == DType::bf16 ? backward_bf16(pass, context, action)
                                             : backward_mixed(pass, context, action);
}

}  // namespace

std::string refuse_residency(const Forward& pass, const LaunchContext& context) {
  return apply(pass, context, Action::refuse_residency);
}
std::string refuse_residency(const Backward& pass, const LaunchContext& context) {
  return apply(pass, context, Action::refuse_residency);
}
void launch(const Forward& pass, const LaunchContext& context) { (void)apply(pass, context, Action::launch); }
void launch(const Backward& pass, const LaunchContext& context) { (void)apply(pass, context, Action::launch); }
std::string describe(const Forward& pass, const LaunchContext& context) {
  return apply(pass, context, Action::describe);
}
std::string describe(const Backward& pass, const LaunchContext& context) {
  return apply(pass, context, Action::describe);
}

}  // namespace sdm::fused
