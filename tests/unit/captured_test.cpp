#include "workload/captured.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>

#include "base/error.h"
#include "base/parallel.h"
#include "config/expand.h"
#include "io/safetensors.h"
#include "run/capture.h"

namespace sdm {
namespace {

/// A small ragged workload with two streams: tokens 0..4 in chunks of 4, so tokens 5..7 are padding.
Case small_case() {
  Case c;
  c.id = c.name = "small";
  SparseWorkload w;
  w.streams = 2, w.tokens = 5, w.chunk = 4, w.writes = 3, w.reads = 2, w.head_dim = 4, w.slots = 8;
  w.final_bank_gradient = true;
  c.workload = w;
  return c;
}

/// Owns a file that is edited tensor by tensor and written again.
class CapturedFile : public testing::Test {
 protected:
  CapturedFile()
      : path_((std::filesystem::temp_directory_path() / ("sdm_captured_" + std::to_string(getpid()))).string()) {}
  ~CapturedFile() override { std::filesystem::remove(path_); }

  struct Editable {
    StoredType type;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;

    template <typename T>
    void set(std::size_t index, T value) {
      std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
    }
  };
  using Tensors = std::map<std::string, Editable>;

  /// Writes the case, lets `edit` change it, and loads it; the error's text, or "".
  std::string load(const Case& c, const std::function<void(Tensors&, std::map<std::string, std::string>&)>& edit) {
    write_inputs(c, path_, threads_, true);
    Tensors tensors;
    std::map<std::string, std::string> metadata;
    {
      const SafetensorsFile file = SafetensorsFile::open(path_);
      for (const std::string& name : file.names()) {
        const StoredTensor& t = file.tensor(name);
        tensors[name] = {t.type, t.shape, {t.bytes.begin(), t.bytes.end()}};
      }
      metadata.insert(file.metadata().begin(), file.metadata().end());
    }
    if (edit) edit(tensors, metadata);
    std::vector<TensorToWrite> out;
    for (const auto& [name, t] : tensors) out.push_back({name, t.type, t.shape, t.bytes});
    write_safetensors(path_, out, metadata, true);
    try {
      loaded_ = generate_inputs(std::get<SparseWorkload>(replay_of(c, path_).workload), threads_);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }

  void expect_refused(const std::string& part, const std::function<void(Tensors&)>& edit) {
    const std::string message = load(small_case(), [&](Tensors& t, auto&) { edit(t); });
    EXPECT_NE(message.find(part), std::string::npos) << "got: " << message;
    EXPECT_EQ(message.find(path_), 0u) << message;
  }

  Parallel threads_{1};
  std::string path_;
  SparseInputs loaded_;
};

TEST_F(CapturedFile, ComesBackAsItWas) {
  for (const DType index : {DType::i32, DType::i64})
    for (const DType value : {DType::f32, DType::bf16})
      for (const Gate gate : {Gate::token, Gate::write}) {
        Case c = small_case();
        auto& w = std::get<SparseWorkload>(c.workload);
        w.index_dtype = index, w.value_dtype = value, w.gate = gate;
        ASSERT_EQ(load(c, {}), "");
        const SparseInputs made = generate_inputs(w, threads_);
        EXPECT_EQ(loaded_.k_idx, made.k_idx);
        EXPECT_EQ(loaded_.q_idx, made.q_idx);
        EXPECT_EQ(loaded_.k, made.k);
        EXPECT_EQ(loaded_.q, made.q);
        EXPECT_EQ(loaded_.g, made.g);
        EXPECT_EQ(loaded_.v, made.v);
        EXPECT_EQ(loaded_.beta, made.beta);
        EXPECT_EQ(loaded_.d_reading, made.d_reading);
        for (const BankKind kind : {BankKind::memory, BankKind::gradient}) {
          std::vector<std::uint16_t> one(static_cast<std::size_t>(w.bank_elements())), two = one;
          fill_bank(w, made, kind, 0, w.bank_elements(), one.data(), threads_);
          fill_bank(w, loaded_, kind, 0, w.bank_elements(), two.data(), threads_);
          EXPECT_EQ(one, two);
        }
      }
}

TEST_F(CapturedFile, WhatMayBeMissing) {
  ASSERT_EQ(
      load(small_case(), [](Tensors& t, auto&) { t.erase("d_reading"), t.erase("bank"), t.erase("d_final_bank"); }),
      "");
  EXPECT_EQ(loaded_.d_reading, generate_inputs(std::get<SparseWorkload>(small_case().workload), threads_).d_reading);
  EXPECT_TRUE(loaded_.bank.empty());
  expect_refused("lacks the tensor 'beta'", [](Tensors& t) { t.erase("beta"); });
  expect_refused("'d_readings' that is no input", [](Tensors& t) { t["d_readings"] = t["d_reading"]; });
  expect_refused("did you mean 'd_reading'", [](Tensors& t) { t["d_readings"] = t["d_reading"]; });
}

TEST_F(CapturedFile, ShapesAndTypes) {
  expect_refused("k has the shape [4, 3, 4], but the workload asks for [4, 4, 3]", [](Tensors& t) {
    t["k"].shape = {4, 3, 4};
  });
  expect_refused("q_idx is F32; legal: I32, I64", [](Tensors& t) { t["q_idx"].type = StoredType::f32; });
  expect_refused("v is I32; legal: F32, BF16", [](Tensors& t) { t["v"].type = StoredType::i32; });
  EXPECT_NE(load(small_case(), [](Tensors&, auto& m) { m["tokens"] = "6"; })
                .find("was made for tokens = 6, but workload.tokens is 5"),
            std::string::npos);
  EXPECT_NE(load(small_case(), [](Tensors&, auto& m) { m[kCapturedFormat] = "2"; }).find("format version 2"),
            std::string::npos);
}

// Chunks are time-major: chunk 0 is stream 0, chunk 1 is stream 1; token row 5 = chunk 1, token 1.
TEST_F(CapturedFile, SlotsAreNamedWithTheirToken) {
  expect_refused("k_idx names slot 3 twice at stream 1, token 1 (entries 0 and 2)", [](Tensors& t) {
    t["k_idx"].set<std::int32_t>(5 * 3 + 0, 8 + 3), t["k_idx"].set<std::int32_t>(5 * 3 + 1, 8 + 1),
        t["k_idx"].set<std::int32_t>(5 * 3 + 2, 8 + 3);
  });
  expect_refused("q_idx names row 7 at stream 1, token 1, entry 0; rows of that stream lie in [8, 16)",
                 [](Tensors& t) { t["q_idx"].set<std::int32_t>(5 * 2, 7); });
  expect_refused("k_idx names row -1 at stream 0, token 2; rows lie in [0, 16)",
                 [](Tensors& t) { t["k_idx"].set<std::int32_t>(2 * 3, -1); });
}

TEST_F(CapturedFile, ValuesAreChecked) {
  expect_refused("v is nan at stream 1, token 1, element 2; every input is finite",
                 [](Tensors& t) { t["v"].set(5 * 4 + 2, std::numeric_limits<float>::quiet_NaN()); });
  expect_refused("bank is inf at row 3, column 1", [](Tensors& t) { t["bank"].set<std::uint16_t>(3 * 4 + 1, 0x7f80); });
  expect_refused("g is 0.25 at stream 1, token 1; a log-decay is at most 0", [](Tensors& t) { t["g"].set(5, 0.25f); });
  expect_refused("beta is 1.5 at stream 0, token 3; a write gate lies in [0, 1]",
                 [](Tensors& t) { t["beta"].set(3, 1.5f); });
  // Chunks 2 and 3 are step 1: token row 8 is token 4 of stream 0, row 9 its first padding.
  expect_refused("k is 0.5 at stream 0, token 5, which is padding", [](Tensors& t) { t["k"].set(9 * 3, 0.5f); });
  expect_refused("k_idx is 2 at stream 0, token 5, which is padding",
                 [](Tensors& t) { t["k_idx"].set<std::int32_t>(9 * 3, 2); });
}

TEST_F(CapturedFile, ABf16WorkloadTakesNoMoreThanBf16) {
  Case c = small_case();
  std::get<SparseWorkload>(c.workload).value_dtype = DType::bf16;
  const std::string message = load(c, [](Tensors& t, auto&) {
    Editable wide{StoredType::f32, t["k"].shape, std::vector<std::byte>(t["k"].bytes.size() * 2)};
    wide.set(0, 0.1f);
    t["k"] = wide;
  });
  EXPECT_NE(message.find("k is 0.1 at stream 0, token 0, element 0, which bf16 cannot hold"), std::string::npos)
      << message;
}

TEST(Capture, FileNames) {
  EXPECT_EQ(file_name_of("smoke/chunk=32"), "smoke_chunk=32");
  EXPECT_EQ(file_name_of("../x y"), "_._x_y");
}

}  // namespace
}  // namespace sdm
