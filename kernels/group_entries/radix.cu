#include "kernels/common/radix_sort.cuh"
#include "kernels/group_entries/outputs.cuh"

namespace sdm::group_entries {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

constexpr int kThreads = 1024;
constexpr int kWords = kThreads / 32 * device::kSortDigits;  // counters; also covers the FIRST bits of 65,536 positions

/// A CTA sorts one (chunk, side) after the other; its two lists of (key, entry) lie in its own part of the scratch.
__global__ void __launch_bounds__(kThreads) radix_kernel(const __grid_constant__ Params p, int list_length) {
  __shared__ std::uint32_t words[kWords];
  device::wait_for_previous_grid();
  uint2* lists = static_cast<uint2*>(p.scratch) + std::int64_t{2} * list_length * blockIdx.x;
  for (std::int64_t segment = blockIdx.x; segment < 2 * p.dims.chunks(); segment += gridDim.x) {
    const Segment s = segment_of(p, segment / 2, segment % 2 == 0 ? SideOf::writes : SideOf::reads);
    device::PairList items{lists, lists + list_length};
    for (int e = static_cast<int>(threadIdx.x); e < s.valid; e += kThreads)
      items.in[e] = make_uint2(s.slot_of(e), static_cast<std::uint32_t>(e));
    __syncthreads();
    device::radix_sort(items, s.valid, p.dims.slots, words);
    write_segment(device::whole_cta(), s, items, words,
                  [&](const device::SortItem& item, int i) { s.groups.position[s.at + item.entry] = i; });
    __syncthreads();  // the next segment overwrites lists and words
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

int list_length(const Params& p) {
  return p.dims.chunk * (p.dims.writes > p.dims.reads ? p.dims.writes : p.dims.reads);
}

device::LaunchShape shape_of(const Params& p) {
  const std::int64_t segments = 2 * p.dims.chunks();
  return {dim3(static_cast<unsigned>(segments < kRadixBlocks ? segments : kRadixBlocks)), kThreads, 0};
}

std::string refuse(const Params& p, const Device&) {
  if (list_length(p) <= 32 * kWords) return "";
  return "radix sorts at most " + std::to_string(32 * kWords) + " entries a chunk, not " +
         std::to_string(list_length(p));
}

void launch(const Params& p, const LaunchContext& context) {
  device::launch(radix_kernel, shape_of(p), context, p, list_length(p));
  launch_match(p, context);
}

std::string describe_launch(const Params& p, const LaunchContext&) {
  return device::describe(shape_of(p)) + ", lists in global memory, 8-bit digits; then the match";
}

}  // namespace

const Variant<Params> radix = {
    .name = "radix",
    .why = "a chunk's entries do not fit in shared memory",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
    .scratch_bytes = [](const Params& p) { return scratch_bytes(p.dims); },
};

}  // namespace sdm::group_entries
