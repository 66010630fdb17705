#include "kernels/parameter_gradients/dots.cuh"
#include "kernels/parameter_gradients/entries.cuh"

namespace sdm::parameter_gradients {
namespace {

// --- launchers (kernels: dots.cuh, entries.cuh)
// ------------------------------------------------------------------------

struct Shapes {
  device::LaunchShape dots, tokens, entries, gates, scalar;
  int tiles, entry_parts, gate_parts;
};

std::int64_t dot_ctas(const Params& p) {
  const std::int64_t tiles = device::ceil_div(p.dims.chunk, DotTile::kRows);
  return p.dims.chunks() * 2 * tiles * tiles;
}

Shapes shapes_of(const Params& p) {
  const std::int64_t chunks = p.dims.chunks(), rows = chunks * p.dims.chunk;
  const auto grid = [](std::int64_t x, unsigned y = 1) { return dim3(static_cast<unsigned>(x), y); };
  const int most = p.dims.writes > p.dims.reads ? p.dims.write_positions() : p.dims.read_positions();
  Shapes s{};
  s.tiles = device::ceil_div(p.dims.chunk, DotTile::kRows);
  s.entry_parts = device::ceil_div(most, kEntryThreads);
  s.gate_parts = device::ceil_div(p.dims.write_positions(), kEntryThreads);
  s.dots = {grid(dot_ctas(p)), DotTile::kThreads, 0};
  s.tokens = {grid(device::ceil_div(rows, kTokenThreads / 32)), kTokenThreads, 0};
  s.entries = {grid(chunks * s.entry_parts, 2), kEntryThreads, 0};
  s.gates = {grid(chunks * s.gate_parts), kEntryThreads, 0};
  s.scalar = {grid(device::ceil_div(rows, kScalarRows)), kScalarRows, 0};
  return s;
}

std::string refuse(const Params& p, const Device&) {
  if (dot_ctas(p) < (std::int64_t{1} << 31)) return "";
  return std::to_string(dot_ctas(p)) + " tiles of dots are more than the 2147483647 CTAs of a launch (fewer chunks)";
}

void launch(const Params& p, const LaunchContext& context) {
  const Shapes s = shapes_of(p);
  device::launch(p.dims.head_dim % 4 == 0 ? dots_kernel<true> : dots_kernel<false>, s.dots, context, p, s.tiles);
  device::launch(tokens_kernel<>, s.tokens, context, p);
  device::launch(entries_kernel<>, s.entries, context, p, s.entry_parts);
  device::launch(gates_kernel<>, s.gates, context, p, s.gate_parts);
  if (p.gate == Gate::token) device::launch(scalar_gate_kernel<>, s.scalar, context, p);
}

std::string describe_launch(const Params& p, const LaunchContext&) {
  const Shapes s = shapes_of(p);
  return "dots " + device::describe(s.dots) + "; tokens " + device::describe(s.tokens) + "; entries " +
         device::describe(s.entries) + "; gates " + device::describe(s.gates) +
         (p.gate == Gate::token ? "; gate sums " + device::describe(s.scalar) : "");
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
