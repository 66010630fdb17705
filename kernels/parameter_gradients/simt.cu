#include <algorithm>

#include "kernels/parameter_gradients/dots.cuh"
#include "kernels/parameter_gradients/gates.cuh"

namespace sdm::parameter_gradients {
namespace {

// --- launchers (kernels: dots.cuh, entries.cuh, gates.cuh)
// ----------------------------------------------------------------------

struct Plan {
  device::LaunchShape dots, tokens, entries, gates;
  int lower_tiles, entry_parts, gate_parts;  // of a chunk
};

Plan plan_of(const Params& p) {
  const std::int64_t chunks = p.dims.chunks(), rows = chunks * p.dims.chunk;
  const auto grid = [](std::int64_t x) { return dim3(static_cast<unsigned>(x)); };
  const int tiles = device::ceil_div(p.dims.chunk, DotTile::kSide);
  Plan plan{};
  plan.lower_tiles = tiles * (tiles + 1) / 2;
  plan.entry_parts = device::ceil_div(std::max(p.dims.write_positions(), p.dims.read_positions()), kEntriesOfCta);
  plan.gate_parts = device::ceil_div(p.dims.chunk, gate_tokens(p.dims));
  plan.dots = {grid(chunks * plan.lower_tiles), DotTile::kThreads, 2 * sizeof(DotStage)};
  plan.tokens = {grid(device::ceil_div(rows, std::int64_t{kTokensOfCta})), kTokenThreads, 0};
  plan.entries = {grid(chunks * 2 * plan.entry_parts), kEntryThreads, 0};
  plan.gates = {grid(chunks * plan.gate_parts), kEntryThreads, 0};
  return plan;
}

std::string refuse(const Params& p, const Device&) {
  // No launch has more CTAs than this: a chunk has at most 10 tiles of dots, 256 parts of entries, 128 of
  // gates and 16 CTAs of tokens.
  const std::int64_t ctas = p.dims.chunks() * 256;
  if (ctas < (std::int64_t{1} << 31)) return "";
  return std::to_string(p.dims.chunks()) + " chunks are more than the 8388607 whose CTAs fit a launch (fewer chunks)";
}

bool quads_fit(const Dims& d) { return d.write_positions() % 4 == 0 && d.read_positions() % 4 == 0; }

void launch(const Params& p, const LaunchContext& context) {
  const Plan plan = plan_of(p);
  device::launch(p.dims.head_dim % 4 == 0 ? dots_kernel<true> : dots_kernel<false>, plan.dots, context, p,
                 plan.lower_tiles);
  device::launch(tokens_kernel<>, plan.tokens, context, p);
  device::launch(quads_fit(p.dims) ? entries_kernel<4> : entries_kernel<1>, plan.entries, context, p, plan.entry_parts);
  device::launch(gates_kernel<>, plan.gates, context, p, plan.gate_parts);
}

std::string describe_launch(const Params& p, const LaunchContext&) {
  const Plan plan = plan_of(p);
  return "dots " + device::describe(plan.dots) + "; tokens " + device::describe(plan.tokens) + "; entries " +
         device::describe(plan.entries) + "; gates " + device::describe(plan.gates);
}

}  // namespace

const Variant<Params> simt = {
    .name = "simt",
    .why = "any shape, fp32 multiply-adds",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::parameter_gradients
