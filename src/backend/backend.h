#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/bank_fill/bank_fill.h"
#include "kernels/stage.h"
#include "report/result.h"

namespace sdm {

/// A recorded sequence of launches that can be replayed (a CUDA graph).
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void replay() = 0;
  /// Records anew in this one's place, for other addresses. True: the executable form was updated where it is; false:
  /// what is launched differs too much, and it was instantiated again.
  virtual bool update(const std::function<void()>& body) = 0;
};

/// Work beside a case, while a check repeats it. It runs until the object goes.
enum class LoadKind : std::uint8_t {
  disturbing,  ///< copies, arithmetic and cache-thrashing, all at once
  half_device  ///< takes half of the multiprocessors away
};
class Load {
 public:
  virtual ~Load() = default;
  /// What has run so far, in words: "412 launches beside it".
  virtual std::string describe() const = 0;
  /// False where the load could not be there all along (a time limit ended it): what was checked proves nothing.
  virtual bool lasting() const = 0;
};

/// Where a case runs: the host, or one GPU with one stream. Errors are CudaError (std::bad_alloc on the host).
class Backend {
 public:
  virtual ~Backend() = default;
  virtual DeviceInfo info() const = 0;
  virtual const Device* device() const = 0;  ///< null: the host, where stages run as replays
  virtual LaunchContext launch_context() const = 0;

  virtual void* allocate(std::size_t bytes) = 0;  ///< at least 256-byte aligned
  virtual void release(void* memory) noexcept = 0;
  virtual std::uint64_t free_memory() const = 0;  ///< bytes that a case may plan with

  // In stream order; uploads and downloads have completed when they return.
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  /// Hands `bytes` bytes to `consume` in order, in pieces of whole 64-byte lines (the last may be short), without a
  /// copy of it all: the next piece is on its way while one is consumed.
  virtual void read_back(const void* from, std::size_t bytes,
                         const std::function<void(std::span<const std::byte>)>& consume) {
    consume({static_cast<const std::byte*>(from), bytes});
  }
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void fill(void* to, std::uint8_t byte, std::size_t bytes) = 0;
  /// Fills a generated bank in place; false where the backend cannot, and the host has to.
  virtual bool fill_bank(const bank_fill::Fill&) { return false; }
  virtual void synchronize() = 0;

  /// Attributes a failed launch to its stage; called after every launch. Does not wait.
  virtual void after_launch(std::string_view stage, int step) = 0;

  virtual void push_range(std::string_view name) = 0;  ///< NVTX
  virtual void pop_range() = 0;
  virtual void profiler_start() = 0;
  virtual void profiler_stop() = 0;

  /// Records a moment in the stream and returns its number; numbers start again at 0 after reset_marks().
  virtual int mark() = 0;
  virtual double between_us(int from, int to) = 0;  ///< waits for both
  virtual void reset_marks() = 0;

  virtual void flush_l2() = 0;  ///< writes a buffer of more than the L2's size and drops persisting lines
  /// Share of the highest clock that the device runs at now; 1 where it cannot be known.
  virtual double clock_share() const = 0;

  /// Inside a recording: another stream, whose launches from now on wait for what the first one has so far, and run
  /// beside what it gets next; until join(), from where on the first one waits for all of them. Null outside of
  /// recordings.
  virtual CUstream_st* fork() { return nullptr; }
  virtual void join() {}

  /// Records what `body` launches; null where the backend cannot record.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& body) = 0;

  /// Starts a load and waits until it has begun; null where the backend has none of the kind.
  virtual std::unique_ptr<Load> start_load(LoadKind) { return nullptr; }

  // For planted faults alone; never inside a recording.
  virtual void add_in_any_order(float*) {}  ///< adds numbers of many sizes to *element, in no fixed order
  virtual void add_off_stream(float*) {}    ///< keeps adding 1 for some milliseconds, and the stream does not wait
  virtual void crash() {}      ///< an error that nothing survives: of the CUDA context, on the host of the process
  virtual void never_end() {}  ///< work without an end, in the stream
};

std::unique_ptr<Backend> make_host_backend();

/// GPUs that this build can use. No driver, an old driver or no GPU is an empty list with the reason in `why_none`.
struct GpuList {
  std::vector<DeviceInfo> devices;
  std::string why_none;
};
GpuList list_gpus();

/// `index` counts as list_gpus does. Throws CudaError.
std::unique_ptr<Backend> make_cuda_backend(int index, bool force_portable);

/// "13.0" and the architectures that kernels were built for; empty without CUDA.
std::string cuda_toolkit_version();
std::vector<std::string> cuda_architectures();

}  // namespace sdm
