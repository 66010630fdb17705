// Lower triangular tensors (Tensor::Role::lower): restore() makes the zeros above the diagonals and poisons the rest; a
// training step leaves the former and writes all of the latter.
#include <gtest/gtest.h>

#include <cmath>

#include "run/sparse_session.h"

namespace sdm {
namespace {

class LowerTensors : public testing::Test {
 protected:
  LowerTensors() {
    w.streams = 2, w.tokens = 61, w.chunk = 12, w.writes = 5, w.reads = 4, w.head_dim = 9, w.slots = 40, w.seed = 7;
  }
  /// Calls visit(tensor, row, column, value) for every element of all of them.
  template <typename Visit>
  static int each(const SparseSession& session, Visit&& visit) {
    int tensors = 0;
    for (const Tensor* tensor : session.buffers().tensors()) {
      if (tensor->role != Tensor::Role::lower) continue;
      ++tensors;
      const std::vector<float> values = session.download_floats(*tensor);
      const auto c = static_cast<std::size_t>(tensor->shape.back());
      for (std::size_t i = 0; i < values.size(); ++i) visit(*tensor, i / c % c, i % c, values[i]);
    }
    return tensors;
  }
  SparseWorkload w;
  Parallel threads{2};
  std::unique_ptr<Backend> host = make_host_backend();
};

TEST_F(LowerTensors, StartWithZerosAboveTheDiagonalsAndPoisonBelow) {
  const SparseInputs inputs = generate_inputs(w, threads);
  SparseSession session(w, inputs, *host, threads, {});
  session.restore();
  const int tensors = each(session, [](const Tensor& tensor, std::size_t row, std::size_t column, float value) {
    EXPECT_TRUE(column > row ? value == 0.0f : std::isnan(value)) << tensor.name << " " << row << " " << column;
  });
  EXPECT_EQ(tensors, 7);
}

TEST_F(LowerTensors, AStepWritesAllUpToTheDiagonalsAndNothingAbove) {
  const SparseInputs inputs = generate_inputs(w, threads);
  SparseSession session(w, inputs, *host, threads, {});
  session.restore();
  for (const Tensor* tensor : session.buffers().tensors())
    if (tensor->role == Tensor::Role::lower) host->fill(tensor->data, Arena::kPoisonByte, tensor->bytes());
  session.run_training_step();
  each(session, [](const Tensor& tensor, std::size_t row, std::size_t column, float value) {
    EXPECT_EQ(std::isnan(value), column > row) << tensor.name << " " << row << " " << column;
  });
}

}  // namespace
}  // namespace sdm
