#include "backend/backend.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/roof/roof.h"
#include "measure/roof.h"
#include "workload/sparse.h"

namespace sdm {
namespace {

class GpuBackend : public testing::Test {
 protected:
  void SetUp() override {
    const GpuList list = list_gpus();
    if (list.devices.empty()) GTEST_SKIP() << list.why_none;
    backend = make_cuda_backend(0, false);
  }
  void* take(std::size_t bytes) {
    owned.push_back(backend->allocate(bytes));
    return owned.back();
  }
  void TearDown() override {
    for (void* memory : owned) backend->release(memory);
  }
  std::unique_ptr<Backend> backend;
  std::vector<void*> owned;
};

std::vector<std::uint8_t> noise(std::size_t bytes) {
  std::vector<std::uint8_t> data(bytes);
  std::uint32_t state = 12345;
  for (std::uint8_t& byte : data) byte = static_cast<std::uint8_t>((state = state * 1664525u + 1013904223u) >> 24);
  return data;
}

TEST_F(GpuBackend, UploadCopyFillAndDownloadKeepEveryByte) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{255}, kMiB, kMiB + 1, 32 * kMiB, 64 * kMiB, 100 * kMiB + 13}) {
    const auto data = noise(bytes);
    std::vector<std::uint8_t> back(bytes);
    void *a = take(bytes), *b = take(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a) % 256, 0u);
    backend->fill(b, 0x11, bytes);
    backend->upload(a, data.data(), bytes);
    backend->copy(b, a, bytes);
    backend->download(back.data(), b, bytes);
    EXPECT_TRUE(back == data) << bytes;
    backend->fill(b, 0x77, bytes);
    backend->download(back.data(), b, bytes);
    EXPECT_TRUE(back == std::vector<std::uint8_t>(bytes, 0x77)) << bytes;
  }
}

TEST_F(GpuBackend, ReadsBackEveryByteInOrder) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, (std::size_t{100} << 20) + 13}) {
    const auto data = noise(bytes);
    void* memory = take(bytes);
    backend->upload(memory, data.data(), bytes);
    std::size_t at = 0;
    backend->read_back(memory, bytes, [&](std::span<const std::byte> piece) {
      ASSERT_LE(at + piece.size(), bytes);
      EXPECT_EQ(at % 64, 0u);
      EXPECT_EQ(std::memcmp(piece.data(), data.data() + at, piece.size()), 0) << at;
      at += piece.size();
    });
    EXPECT_EQ(at, bytes);
  }
}

TEST_F(GpuBackend, FillsABankWithTheBitsOfTheHost) {
  Parallel threads;
  SparseWorkload w;
  w.streams = 1, w.head_dim = 7, w.slots = 54321, w.seed = 99, w.final_bank_gradient = true;
  for (const DType dtype : {DType::bf16, DType::f32})
    for (const BankKind kind : {BankKind::memory, BankKind::gradient}) {
      w.bank_dtype = w.grad_dtype = dtype;
      const std::size_t bytes = static_cast<std::size_t>(w.bank_elements()) * size_of(dtype);
      std::vector<std::uint8_t> want(bytes), got(bytes);
      fill_bank(w, {}, kind, 0, w.bank_elements(), want.data(), threads);
      void* memory = take(bytes);
      ASSERT_TRUE(backend->fill_bank({memory, dtype, w.bank_elements(), w.seed, kind == BankKind::gradient}));
      backend->download(got.data(), memory, bytes);
      EXPECT_TRUE(want == got) << name_of(dtype);
    }
}

TEST_F(GpuBackend, MarksCountFromZeroAndOrderTime) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  void* memory = take(kBytes);
  for (int round = 0; round < 2; ++round) {
    backend->reset_marks();
    EXPECT_EQ(backend->mark(), 0);
    backend->fill(memory, 1, kBytes);
    EXPECT_EQ(backend->mark(), 1);
    const double us = backend->between_us(0, 1);
    EXPECT_GT(us, 5.0);
    EXPECT_LT(us, 1e6);
  }
  EXPECT_THROW(backend->between_us(0, 2), InternalError);
}

TEST_F(GpuBackend, InfoNamesTheGpu) {
  const DeviceInfo info = backend->info();
  EXPECT_EQ(info.uuid.size(), std::strlen("GPU-01234567-0123-0123-0123-0123456789ab"));
  EXPECT_EQ(info.uuid, list_gpus().devices.at(0).uuid);
  EXPECT_EQ(*info.compute_capability, backend->device()->compute_capability);
  EXPECT_GT(backend->device()->multiprocessors, 0);
  EXPECT_GE(backend->device()->shared_memory_per_block, 48u * 1024);
  EXPECT_GT(*info.l2_bytes, 0u);
  EXPECT_LE(backend->free_memory(), *info.memory_bytes);
  EXPECT_GT(backend->clock_share(), 0.0);
  EXPECT_LE(backend->clock_share(), 1.0);
  EXPECT_THROW(make_cuda_backend(999, false), UserError);
}

TEST_F(GpuBackend, OutOfMemoryIsKnownAndHarmless) {
  try {
    backend->allocate(std::size_t{1} << 50);
    FAIL() << "a petabyte";
  } catch (const CudaError& error) {
    EXPECT_TRUE(error.out_of_memory);
    EXPECT_FALSE(error.sticky);
  }
  EXPECT_NO_THROW(backend->after_launch("gather", 0));
  EXPECT_NO_THROW(backend->synchronize());
}

TEST_F(GpuBackend, AFailedLaunchNamesItsStageAndStep) {
  LaunchContext context = backend->launch_context();
  context.device.multiprocessors = 0;  // an empty grid is refused
  roof::RowPass pass{.touched = 8, .row_bytes = 16};
  roof::launch(pass, context);
  try {
    backend->after_launch("write", 3);
    FAIL() << "an empty grid was launched";
  } catch (const CudaError& error) {
    EXPECT_NE(std::string(error.what()).find("launch of write (step 3) failed"), std::string::npos) << error.what();
    EXPECT_FALSE(error.sticky);
  }
  EXPECT_NO_THROW(backend->after_launch("write", 4));
}

TEST_F(GpuBackend, RangesFlushAndProfilerAreHarmless) {
  backend->push_range("case:a");
  backend->push_range("gather");
  backend->pop_range();
  backend->pop_range();
  backend->profiler_start();
  backend->flush_l2();
  backend->profiler_stop();
  EXPECT_NO_THROW(backend->synchronize());
}

/// A pass over the same rows on the GPU and on the host.
struct TwoPasses {
  std::vector<std::uint8_t> host_rows;
  std::vector<std::int32_t> order;
  std::vector<std::uint32_t> host_seen = std::vector<std::uint32_t>(roof::kSeenWords);
  roof::RowPass on_gpu, on_host;
};

class GpuRowPass : public GpuBackend {
 protected:
  TwoPasses make(std::int64_t row_bytes, std::int64_t rows, std::int64_t touched) {
    TwoPasses p;
    p.host_rows = noise(static_cast<std::size_t>(rows * row_bytes));
    p.order = random_rows(rows, touched, 3);
    const std::size_t order_bytes = p.order.size() * sizeof(std::int32_t),
                      seen_bytes = roof::kSeenWords * sizeof(std::uint32_t);
    void *data = take(p.host_rows.size()), *order = take(order_bytes), *seen = take(seen_bytes);
    backend->upload(data, p.host_rows.data(), p.host_rows.size());
    backend->upload(order, p.order.data(), order_bytes);
    backend->fill(seen, 0, seen_bytes);
    p.on_gpu = {data,      static_cast<const std::int32_t*>(order), touched,
                row_bytes, static_cast<std::uint32_t*>(seen),       false};
    p.on_host = {p.host_rows.data(), p.order.data(), touched, row_bytes, p.host_seen.data(), false};
    return p;
  }
  void expect_same(const TwoPasses& p) {
    std::vector<std::uint8_t> rows(p.host_rows.size());
    std::vector<std::uint32_t> seen(roof::kSeenWords);
    backend->download(rows.data(), p.on_gpu.rows, rows.size());
    backend->download(seen.data(), p.on_gpu.seen, seen.size() * sizeof(std::uint32_t));
    EXPECT_TRUE(rows == p.host_rows) << "row_bytes " << p.on_gpu.row_bytes;
    std::uint32_t gpu = 0, host = 0;
    for (const std::uint32_t word : seen) gpu ^= word;
    for (const std::uint32_t word : p.host_seen) host ^= word;
    EXPECT_EQ(gpu, host) << "row_bytes " << p.on_gpu.row_bytes;
  }
  void launch(const roof::RowPass& pass) {
    roof::launch(pass, backend->launch_context());
    backend->after_launch("roof", -1);
  }
  Parallel threads;
};

TEST_F(GpuRowPass, EqualsTheHostsForEveryWordWidth) {
  for (const std::int64_t row_bytes : {2, 4, 16, 40, 60, 62, 240, 256, 524, 768, 1920, 2048}) {
    for (const std::int64_t touched : {1, 7, 1000, 40001}) {
      TwoPasses p = make(row_bytes, 50000, touched);
      for (const bool write_back : {false, true}) {
        p.on_gpu.write_back = p.on_host.write_back = write_back;
        launch(p.on_gpu);
        roof::replay(p.on_host, threads);
        expect_same(p);
      }
    }
  }
}

TEST_F(GpuRowPass, ARecordingReplaysWhatWasLaunched) {
  TwoPasses p = make(256, 1000, 500);
  p.on_gpu.write_back = p.on_host.write_back = true;
  const auto recording = backend->record([&] { launch(p.on_gpu); });
  ASSERT_NE(recording, nullptr);
  expect_same(p);  // recording alone runs nothing
  for (int run = 0; run < 3; ++run) {
    recording->replay();
    roof::replay(p.on_host, threads);
  }
  backend->synchronize();
  expect_same(p);
}

TEST_F(GpuRowPass, AThrowWhileRecordingLeavesTheStreamUsable) {
  EXPECT_THROW(backend->record([] { throw UserError("planted"); }), UserError);
  TwoPasses p = make(64, 100, 50);
  launch(p.on_gpu);
  roof::replay(p.on_host, threads);
  expect_same(p);
}

TEST_F(GpuBackend, TheRoofIsPlausible) {
  for (const RoofPoint& point : measure_roof(*backend, {256, 40}, 0.05)) {
    EXPECT_GT(point.bytes_per_second, 1e10) << point.kind;
    EXPECT_LT(point.bytes_per_second, 1e14) << point.kind;
  }
}

}  // namespace
}  // namespace sdm
