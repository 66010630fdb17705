// What gather and gather_grad copy on their way: the snapshot by gather instead of write, and the gradient rows that
// undo reads. Neither may change a bit of anything else, and both must hold the right rows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "check/check.h"
#include "pipeline/sparse_bind.h"

namespace sdm {
namespace {

SparseWorkload workload() {
  SparseWorkload w;
  w.streams = 2, w.tokens = 43, w.chunk = 10, w.writes = 5, w.reads = 4, w.head_dim = 33, w.slots = 60;
  w.final_bank_gradient = true, w.seed = 3;
  return w;
}

/// Runs a step with and without what `change` asks for; all tensors that both have must be equal but for their stage.
class RowCopies : public testing::Test {
 protected:
  using Change = void (*)(SparseWorkload&);
  std::unique_ptr<SparseSession> run(const SparseWorkload& w, const SparseInputs& inputs) {
    auto session = std::make_unique<SparseSession>(w, inputs, *host, threads, std::map<std::string, std::string>{});
    session->restore();
    session->run_training_step();
    return session;
  }
  void expect_same(SparseWorkload plain, Change change) {
    const SparseInputs inputs = generate_inputs(plain, threads);
    SparseWorkload changed = plain;
    change(changed);
    const auto a = run(plain, inputs), b = run(changed, inputs);
    std::map<std::string_view, const Tensor*> others;
    for (const Tensor* tensor : b->buffers().tensors()) others[tensor->name] = tensor;
    for (const Tensor* tensor : a->buffers().tensors()) {
      ASSERT_TRUE(others.contains(tensor->name)) << tensor->name;
      EXPECT_EQ(a->digest(*tensor), b->digest(*others[tensor->name])) << tensor->name;
    }
  }
  std::unique_ptr<Backend> host = make_host_backend();
  Parallel threads;
};

TEST_F(RowCopies, GatherSavesTheRowsThatWriteWouldSave) {
  for (const DType bank : {DType::bf16, DType::f32})
    for (const auto kind : {Distribution::Kind::uniform, Distribution::Kind::hot}) {
      SparseWorkload w = workload();
      w.bank_dtype = w.grad_dtype = bank, w.distribution.kind = kind, w.distribution.hot_slots = 6;
      expect_same(w, [](SparseWorkload& changed) { changed.gather_saves = true; });
    }
}

TEST_F(RowCopies, UndoReadsTheGradientRowsThatGatherGradCopied) {
  using enum SnapshotFormat;
  for (const SnapshotFormat snapshot : {per_entry, raw, fp8, int4})
    for (const DType grad : {DType::bf16, DType::f32}) {
      SparseWorkload w = workload();
      w.snapshot = snapshot, w.grad_dtype = grad;
      expect_same(w, [](SparseWorkload& changed) { changed.gradient_copy = true; });
    }
}

/// The first step's copy against the initial gradient bank: the backward runs from the last step, so one step is taken.
TEST_F(RowCopies, TheCopyHoldsARowOfEachGroupInOrder) {
  SparseWorkload w = workload();
  w.tokens = 9, w.gradient_copy = true;
  const SparseInputs inputs = generate_inputs(w, threads);
  const auto session = run(w, inputs);
  const SparseBuffers& b = session->buffers();
  const std::vector<std::byte> copy = session->download(b.gradient_rows);
  const std::vector<std::byte> payloads = session->download(b.writes.payload), slots = session->download(b.writes.slot);
  std::vector<std::byte> bank(b.grad.bytes());
  session->initial_bank(BankKind::gradient, 0, b.grad.count(), bank.data());
  const std::size_t row_bytes = static_cast<std::size_t>(w.head_dim) * size_of(w.grad_dtype);
  const std::size_t n = static_cast<std::size_t>(b.dims.write_positions());
  const std::vector<std::byte> none(row_bytes);
  for (std::size_t chunk = 0; chunk < static_cast<std::size_t>(w.chunks()); ++chunk) {
    std::size_t ordinal = 0;
    for (std::size_t i = 0; i < n; ++i) {
      std::uint32_t payload = 0;
      std::int32_t slot = 0;
      std::memcpy(&payload, payloads.data() + 4 * (chunk * n + i), 4);
      std::memcpy(&slot, slots.data() + 4 * (chunk * n + i), 4);
      if ((payload & kInvalid) || !(payload & kFirst)) continue;
      EXPECT_EQ(std::memcmp(copy.data() + (chunk * n + ordinal) * row_bytes,
                            bank.data() + static_cast<std::size_t>(slot) * row_bytes, row_bytes),
                0)
          << "chunk " << chunk << " group " << ordinal;
      ++ordinal;
    }
    EXPECT_GT(ordinal, 0u);
    for (; ordinal < n; ++ordinal)
      EXPECT_EQ(std::memcmp(copy.data() + (chunk * n + ordinal) * row_bytes, none.data(), row_bytes), 0) << ordinal;
  }
}

/// The copy is what undo reads, not a by-product: spoiled between the two, the gradient changes.
TEST_F(RowCopies, ASpoiledCopyShows) {
  struct Spoiler final : StageObserver {
    explicit Spoiler(SparseSession& spoiled) : session(spoiled) {}
    void after(const StageCall& call) override {
      if (call.stage == "gather_grad") session.backend().fill(session.buffers().gradient_rows.data, 0x3f, 2);
    }
    SparseSession& session;
  };
  SparseWorkload w = workload();
  w.gradient_copy = true;
  const SparseInputs inputs = generate_inputs(w, threads);
  const auto honest = run(w, inputs);
  SparseSession session(w, inputs, *host, threads, {});
  Spoiler spoiler(session);
  session.restore();
  session.run_training_step(&spoiler);
  EXPECT_NE(session.digest(session.buffers().grad), honest->digest(honest->buffers().grad));
}

/// gather of one operand: the writes' sums alone.
TEST_F(RowCopies, GatherOfOneOperandHasTheBitsOfTwo) {
  const SparseWorkload w = workload();
  const SparseInputs inputs = generate_inputs(w, threads);
  const auto session = run(w, inputs);
  const Tensor &retrieved = session->buffers().retrieved, &inter = session->buffers().inter;
  const std::string expected = session->digest(retrieved), other = session->digest(inter);
  session->restore_banks();
  gather::Params params = bind::gather(session->buffers());
  params.inter = nullptr;
  host->fill(retrieved.data, Arena::kPoisonByte, retrieved.bytes() / static_cast<std::size_t>(w.steps()));
  EXPECT_NE(session->digest(retrieved), expected);
  gather::replay(params, threads);
  EXPECT_EQ(session->digest(retrieved), expected);
  EXPECT_EQ(session->digest(inter), other);
}

}  // namespace
}  // namespace sdm
