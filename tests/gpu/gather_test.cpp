// gather of one operand on a GPU: the writes' sums alone, with the bits of the launch that makes both.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/registry.h"
#include "pipeline/sparse_bind.h"
#include "session_on_gpu.h"

namespace sdm {
namespace {

class GatherOnGpu : public SessionOnGpu {};

TEST_F(GatherOnGpu, OneOperandHasTheBitsOfTwo) {
  for (const int head_dim : {33, 128, 1024})
    for (const DType bank : {DType::bf16, DType::f32})
      for (const auto* variant : registry().gather.variants) {
        SparseWorkload w = workload(3, 60, 32, 24, head_dim, 512);
        w.bank_dtype = w.grad_dtype = bank;
        SCOPED_TRACE(fmt::format("D {} {} {}", head_dim, name_of(bank), variant->name));
        const SparseInputs inputs = generate_inputs(w, threads);
        SparseSession session(w, inputs, *backend, threads, {});
        session.restore();
        session.run(Pass::forward);
        const Tensor& retrieved = session.buffers().retrieved;
        const std::string expected = session.digest(retrieved);
        session.restore_banks();
        gather::Params params = bind::gather(session.buffers());
        params.inter = nullptr;
        if (!variant->refuse(params, *backend->device()).empty()) continue;
        const std::size_t step_bytes = retrieved.bytes() / static_cast<std::size_t>(w.steps());
        backend->fill(retrieved.data, Arena::kPoisonByte, step_bytes);
        EXPECT_NE(session.digest(retrieved), expected);
        variant->launch(params, backend->launch_context());
        backend->after_launch("gather", 0);
        EXPECT_EQ(session.digest(retrieved), expected);
      }
}

}  // namespace
}  // namespace sdm
