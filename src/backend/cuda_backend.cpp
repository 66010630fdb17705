#include <cuda_profiler_api.h>

#include <algorithm>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda_check.h"
#include "backend/cuda_devices.h"
#include "backend/cuda_load.h"
#include "backend/cuda_nvtx.h"
#include "backend/cuda_probe.h"
#include "backend/cuda_staging.h"
#include "backend/nvml.h"
#include "base/error.h"
#include "base/text.h"
#include "kernels/load/load.h"

namespace sdm {
namespace {

/// Kept free of a case: the driver allocates with launches, graphs and modules, too.
constexpr std::uint64_t kReserveBytes = std::uint64_t{256} << 20;

/// What `body` launches into the stream, not run.
cuda::Graph capture(cudaStream_t stream, const std::function<void()>& body) {
  SDM_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  const auto end_capture = [&](cuda::Graph& graph) {
    cudaGraph_t handle = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream, &handle);
    graph.reset(handle);
    return error;
  };
  cuda::Graph graph;
  try {
    body();
  } catch (...) {
    cuda::quietly(end_capture(graph));  // or the stream stays unusable
    throw;
  }
  SDM_CUDA(end_capture(graph));
  return graph;
}

class CudaRecording final : public Recording {
 public:
  CudaRecording(cudaStream_t stream, const std::function<void()>& body) : stream_(stream) {
    instantiate(capture(stream, body));
  }
  void replay() override { SDM_CUDA(cudaGraphLaunch(graph_.get(), stream_)); }
  bool update(const std::function<void()>& body) override {
    const cuda::Graph graph = capture(stream_, body);
    cudaGraphExecUpdateResultInfo info{};
    const cudaError_t error = cudaGraphExecUpdate(graph_.get(), graph.get(), &info);
    if (error == cudaSuccess) return true;
    if (error != cudaErrorGraphExecUpdateFailure) SDM_CUDA(error);
    cuda::quietly(error);
    instantiate(graph);
    return false;
  }

 private:
  void instantiate(const cuda::Graph& graph) {
    cudaGraphExec_t executable = nullptr;
    // Of launches with a share of the device, the kernels' own priorities count.
    SDM_CUDA(cudaGraphInstantiate(&executable, graph.get(), cudaGraphInstantiateFlagUseNodePriority));
    graph_.reset(executable);
    SDM_CUDA(cudaGraphUpload(executable, stream_));  // else the first replay pays for it
  }

  cudaStream_t stream_;
  cuda::GraphExec graph_;
};

/// One GPU, one stream. Makes its GPU the calling thread's current one: use one backend per thread.
class CudaBackend final : public Backend {
 public:
  CudaBackend(int ordinal, bool force_portable);
  ~CudaBackend() override { cuda::quietly(cudaStreamSynchronize(stream_.get())); }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  DeviceInfo info() const override { return cuda::describe_gpu(ordinal_, nvml_, true); }
  const Device* device() const override { return &device_; }
  LaunchContext launch_context() const override { return {device_, stream_.get(), {}, false}; }

  void* allocate(std::size_t bytes) override;
  void release(void* memory) noexcept override { cuda::quietly(cudaFree(memory)); }
  std::uint64_t free_memory() const override;

  void upload(void* to, const void* from, std::size_t bytes) override {
    staging_.upload(stream_.get(), to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    staging_.download(stream_.get(), to, from, bytes);
  }
  void read_back(const void* from, std::size_t bytes,
                 const std::function<void(std::span<const std::byte>)>& consume) override {
    staging_.read_back(stream_.get(), from, bytes, consume);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    SDM_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_.get()));
  }
  void fill(void* to, std::uint8_t byte, std::size_t bytes) override {
    SDM_CUDA(cudaMemsetAsync(to, byte, bytes, stream_.get()));
  }
  bool fill_bank(const bank_fill::Fill& fill) override {
    bank_fill::launch(fill, launch_context());
    SDM_CUDA(cudaGetLastError());
    return true;
  }
  void synchronize() override { waited(cudaStreamSynchronize(stream_.get()), "waiting for the stream"); }
  void after_launch(std::string_view stage, int step) override;

  void push_range(std::string_view name) override { ranges_.push(name); }
  void pop_range() override { ranges_.pop(); }
  void profiler_start() override { SDM_CUDA(cudaProfilerStart()); }
  void profiler_stop() override { SDM_CUDA(cudaProfilerStop()); }

  int mark() override;
  double between_us(int from, int to) override;
  void reset_marks() override { marks_used_ = 0; }

  void flush_l2() override;
  double clock_share() const override;
  std::unique_ptr<Recording> record(const std::function<void()>& body) override {
    forks_ = 0;  // of a body that threw
    return std::make_unique<CudaRecording>(stream_.get(), body);
  }
  CUstream_st* fork() override;
  void join() override;

  std::unique_ptr<Load> start_load(LoadKind kind) override {
    synchronize();  // the load that takes half of the device must find it empty
    return cuda::start_load(kind, ordinal_, device_, threads_per_multiprocessor_);
  }
  void add_in_any_order(float* element) override { load::add_in_any_order(element, launch_context()); }
  void add_off_stream(float* element) override;
  void crash() override { load::write_nowhere(launch_context()); }
  void never_end() override { load::never_end(launch_context()); }

 private:
  /// Checks a call that meets the errors of kernels that were launched before.
  void waited(cudaError_t error, const char* what) const {
    if (error != cudaSuccess) cuda::fail(error, what, __FILE__, __LINE__, "the last launch was " + last_launch());
  }
  std::string last_launch() const;
  cudaEvent_t event_of(int mark) const;

  int ordinal_;
  Nvml nvml_;
  double max_sm_clock_mhz_ = 0;  ///< 0: unknown
  Device device_;
  int threads_per_multiprocessor_ = 0;
  cuda::Stream stream_;
  std::vector<cuda::Stream> forked_streams_;  ///< of recordings: a pool, join() keeps the streams
  std::size_t forks_ = 0;                     ///< since the last join()
  cuda::Event fork_point_;
  cuda::Stream fault_stream_;  ///< made by the first add_off_stream
  cuda::Staging staging_;
  cuda::NvtxRanges ranges_;
  std::vector<cuda::Event> marks_;  ///< a pool: reset_marks() keeps the events
  int marks_used_ = 0;
  cuda::DeviceMemory flush_memory_;
  std::size_t flush_bytes_ = 0;
  std::uint8_t flush_byte_ = 0;
  bool persisting_l2_ = false;
  std::string last_stage_;
  int last_step_ = -1;
};

CudaBackend::CudaBackend(int ordinal, bool force_portable) : ordinal_(ordinal), nvml_(cuda::pci_id_of(ordinal)) {
  SDM_CUDA(cudaSetDevice(ordinal));
  SDM_CUDA(cuda::probe_kernel_image());
  cudaDeviceProp properties{};
  SDM_CUDA(cudaGetDeviceProperties(&properties, ordinal));
  device_.compute_capability = properties.major * 10 + properties.minor;
  device_.multiprocessors = properties.multiProcessorCount;
  device_.shared_memory_per_block = properties.sharedMemPerBlockOptin;
  device_.shared_memory_per_multiprocessor = properties.sharedMemPerMultiprocessor;
  device_.l2_bytes = static_cast<std::size_t>(properties.l2CacheSize);
  device_.force_portable = force_portable;
  threads_per_multiprocessor_ = properties.maxThreadsPerMultiProcessor;
  persisting_l2_ = properties.persistingL2CacheMaxSize > 0;
  max_sm_clock_mhz_ = nvml_.max_sm_clock_mhz().value_or(0);
  stream_ = cuda::make_stream();
  // Taken now, so that free_memory() does not count what the first flush would need.
  constexpr std::size_t kLeastFlushBytes = std::size_t{16} << 20;
  flush_bytes_ = std::max(2 * device_.l2_bytes, kLeastFlushBytes);
  flush_memory_.reset(allocate(flush_bytes_));
}

void* CudaBackend::allocate(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, std::max<std::size_t>(bytes, 1));
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    std::size_t free = 0, total = 0;
    cuda::quietly(cudaMemGetInfo(&free, &total));
    cuda::fail(error, "cudaMalloc", __FILE__, __LINE__,
               fmt::format("{} were asked for with {} free", human_bytes(static_cast<double>(bytes)),
                           human_bytes(static_cast<double>(free))));
  }
  return memory;
}

std::uint64_t CudaBackend::free_memory() const {
  std::size_t free = 0, total = 0;
  SDM_CUDA(cudaMemGetInfo(&free, &total));
  return free > kReserveBytes ? free - kReserveBytes : 0;
}

std::string CudaBackend::last_launch() const {
  if (last_stage_.empty()) return "none of a stage";
  return last_step_ < 0 ? last_stage_ : fmt::format("{} (step {})", last_stage_, last_step_);
}

void CudaBackend::after_launch(std::string_view stage, int step) {
  const cudaError_t error = cudaGetLastError();
  if (cuda::is_sticky(error)) waited(error, "a kernel that ran meanwhile");  // not this launch: it was only queued
  last_stage_ = stage;
  last_step_ = step;
  if (error != cudaSuccess) cuda::fail(error, ("launch of " + last_launch()).c_str(), __FILE__, __LINE__);
}

int CudaBackend::mark() {
  const int number = marks_used_++;
  if (static_cast<std::size_t>(number) == marks_.size()) marks_.push_back(cuda::make_event(cudaEventDefault));
  SDM_CUDA(cudaEventRecord(event_of(number), stream_.get()));
  return number;
}

cudaEvent_t CudaBackend::event_of(int mark) const {
  SDM_REQUIRE(mark >= 0 && mark < marks_used_, "mark {} of {}", mark, marks_used_);
  return marks_[static_cast<std::size_t>(mark)].get();
}

double CudaBackend::between_us(int from, int to) {
  const cudaEvent_t begin = event_of(from), end = event_of(to);
  waited(cudaEventSynchronize(begin), "waiting for a mark");
  waited(cudaEventSynchronize(end), "waiting for a mark");
  float milliseconds = 0;
  SDM_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
  return 1e3 * static_cast<double>(milliseconds);
}

void CudaBackend::flush_l2() {
  // A new value every time: memory that already holds the value need not be written by hardware that compresses it.
  fill(flush_memory_.get(), ++flush_byte_, flush_bytes_);
  if (persisting_l2_) SDM_CUDA(cudaCtxResetPersistingL2Cache());
}

CUstream_st* CudaBackend::fork() {
  cudaStreamCaptureStatus status{};
  SDM_CUDA(cudaStreamIsCapturing(stream_.get(), &status));
  if (status != cudaStreamCaptureStatusActive) return nullptr;
  if (!fork_point_) fork_point_ = cuda::make_event(cudaEventDisableTiming);
  if (forks_ == forked_streams_.size()) forked_streams_.push_back(cuda::make_stream());
  cudaStream_t forked = forked_streams_[forks_++].get();
  SDM_CUDA(cudaEventRecord(fork_point_.get(), stream_.get()));
  SDM_CUDA(cudaStreamWaitEvent(forked, fork_point_.get(), 0));
  return forked;
}

void CudaBackend::join() {
  for (; forks_ > 0; --forks_) {
    SDM_CUDA(cudaEventRecord(fork_point_.get(), forked_streams_[forks_ - 1].get()));
    SDM_CUDA(cudaStreamWaitEvent(stream_.get(), fork_point_.get(), 0));
  }
}

double CudaBackend::clock_share() const {
  const auto clock = nvml_.sm_clock_mhz();
  return clock && max_sm_clock_mhz_ > 0 ? std::min(1.0, *clock / max_sm_clock_mhz_) : 1.0;
}

void CudaBackend::add_off_stream(float* element) {
  constexpr std::uint64_t kNanoseconds = 20'000'000;
  if (!fault_stream_) fault_stream_ = cuda::make_stream();
  load::keep_adding(element, kNanoseconds, {device_, fault_stream_.get(), {}, false});
  SDM_CUDA(cudaGetLastError());
}

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(int index, bool force_portable) {
  const cuda::UsableGpus gpus = cuda::usable_gpus();
  if (gpus.ordinals.empty()) throw Unsupported(gpus.why_none);
  const int count = static_cast<int>(gpus.ordinals.size());
  if (index < 0 || index >= count)
    throw UserError(
        fmt::format("there is no GPU {}: this machine has {} that this build can use, numbered from 0", index, count));
  return std::make_unique<CudaBackend>(gpus.ordinals[static_cast<std::size_t>(index)], force_portable);
}

}  // namespace sdm
