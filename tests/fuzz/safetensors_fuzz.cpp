// A safetensors file: as any file of tensors, as a stored case of published outputs, and as captured inputs of a tiny
// workload. Every byte of what is accepted is read.
#include <sys/mman.h>
#include <unistd.h>

#include <numeric>

#include "fuzz_input.h"
#include "io/golden_case.h"
#include "io/safetensors.h"
#include "workload/captured.h"

namespace sdm::fuzz {
namespace {

/// A file without a place on disk.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    SDM_REQUIRE(descriptor_ >= 0, "no memory file");
    SDM_REQUIRE(::write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "short write");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

/// The workload of the corpus' captured.safetensors.
SparseWorkload tiny_workload(const std::string& path) {
  SparseWorkload workload;
  workload.streams = 1, workload.tokens = 3, workload.chunk = 2, workload.writes = 2, workload.reads = 1;
  workload.head_dim = 2, workload.slots = 4;
  workload.distribution.kind = Distribution::Kind::replay;
  workload.distribution.file = path;
  return workload;
}

/// Reads every byte, so that a range outside the file is noticed.
unsigned sum_of(const SafetensorsFile& file) {
  unsigned sum = 0;
  for (const std::string& name : file.names())
    for (const std::byte byte : file.tensor(name).bytes) sum += std::to_integer<unsigned>(byte);
  return sum;
}

void one(std::string_view input) {
  const MemoryFile memory(input);
  const bool taken = accepted([&] {
    const SafetensorsFile file = SafetensorsFile::open(memory.path());
    volatile unsigned sum = sum_of(file);
    static_cast<void>(sum);
    accepted([&] { read_golden_case(file); });
  });
  if (!taken) return;
  accepted([&] {
    const SparseInputs inputs = load_captured_inputs(tiny_workload(memory.path()));
    for (const std::int32_t row : inputs.k_idx) SDM_REQUIRE(row >= 0 && row < 4, "row {} was let in", row);
  });
}

}  // namespace
}  // namespace sdm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sdm::fuzz::one(sdm::fuzz::text_of(data, size));
  return 0;
}
