#include "check/planted_fault.h"

#include <unistd.h>

#include <cstring>
#include <limits>

#include "kernels/data.h"

namespace sdm {
namespace {

using Fault = PlantedFault;

// Small windows into a session's arrays, on whichever side they lie.

std::vector<std::byte> peek(SparseSession& session, const Tensor& tensor, std::int64_t element, std::int64_t count) {
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
  std::vector<std::byte> bytes(static_cast<std::size_t>(size * count));
  session.backend().download(bytes.data(), tensor.as<std::byte>() + element * size, bytes.size());
  return bytes;
}

void poke(SparseSession& session, const Tensor& tensor, std::int64_t element, std::span<const std::byte> bytes) {
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
  session.backend().upload(tensor.as<std::byte>() + element * size, bytes.data(), bytes.size());
}

float peek_float(SparseSession& session, const Tensor& tensor, std::int64_t element) {
  float value = 0;
  std::memcpy(&value, peek(session, tensor, element, 1).data(), sizeof value);
  return value;
}

void poke_float(SparseSession& session, const Tensor& tensor, std::int64_t element, float value) {
  poke(session, tensor, element, std::as_bytes(std::span(&value, 1)));
}

void flip_last_bit(SparseSession& session, const Tensor& tensor, std::int64_t element) {
  poke_float(session, tensor, element, float_of(bits_of(peek_float(session, tensor, element)) ^ 1u));
}

/// First element of what a step leaves of stream `stream` in a tensor [N, C, D].
std::int64_t first_of(const SparseSession& session, int step, std::int64_t stream = 0) {
  const Dims& d = session.buffers().dims;
  return (std::int64_t{step} * d.streams + stream) * d.chunk * d.head_dim;
}

const Tensor& reading(const SparseSession& session) { return session.buffers().reading; }

/// The row of the first record of chunk 0, as its first element in the bank.
std::int64_t first_row(SparseSession& session, const Tensor& records) {
  Record record;
  session.backend().download(&record, records.data, sizeof record);
  return std::int64_t{record.slot} * session.buffers().dims.head_dim;
}

// The faults. Those that touch one place do so in step 0 (or, where a pass runs backwards, after it).

void swapped_elements(Fault&, SparseSession& session, const StageCall& call, bool) {
  if (call.step != 0) return;
  const std::int64_t row = first_row(session, session.buffers().write_record);
  const std::vector<std::byte> both = peek(session, session.buffers().bank, row, 2);
  const auto half = static_cast<std::ptrdiff_t>(both.size() / 2);
  std::vector<std::byte> swapped(both.begin() + half, both.end());
  swapped.insert(swapped.end(), both.begin(), both.begin() + half);
  poke(session, session.buffers().bank, row, swapped);
}

/// The first two members of every group of the step change places; the payload's place bits stay where they are.
void swapped_order(Fault& fault, SparseSession& session, const StageCall& call, bool before) {
  const Dims& d = session.buffers().dims;
  const Tensor& tensor = session.buffers().write_record;
  const std::size_t count = static_cast<std::size_t>(d.streams) * static_cast<std::size_t>(d.write_positions());
  auto* const at = tensor.as<Record>() + static_cast<std::size_t>(call.step) * count;
  if (!before) return session.backend().upload(at, fault.saved.data(), fault.saved.size());
  std::vector<Record> records(count);
  session.backend().download(records.data(), at, count * sizeof(Record));
  const auto bytes = std::as_bytes(std::span(records));
  fault.saved.assign(bytes.begin(), bytes.end());
  constexpr std::uint32_t kMember = 0x1ffffu;  // token and entry
  for (std::size_t i = 0; i + 1 < count; ++i) {
    Record &first = records[i], &second = records[i + 1];
    const bool pair = (first.payload & kFirst) && !(first.payload & (kLast | kInvalid)) && !(second.payload & kLast);
    if (!pair) continue;  // the last member brings the row's decay: pairs of two would change more than an order
    const std::uint32_t member = first.payload & kMember;
    first.payload = (first.payload & ~kMember) | (second.payload & kMember);
    second.payload = (second.payload & ~kMember) | member;
    std::swap(first.scale, second.scale);
  }
  session.backend().upload(at, records.data(), count * sizeof(Record));
}

void missed_element(Fault& fault, SparseSession& session, const StageCall& call, bool before) {
  if (call.step != 0) return;
  const std::int64_t row = first_row(session, session.buffers().write_record);
  if (before) fault.saved = peek(session, session.buffers().bank, row, 1);
  if (!before) poke(session, session.buffers().bank, row, fault.saved);
}

void out_of_bounds(Fault&, SparseSession& session, const StageCall& call, bool) {
  const Tensor& tensor = session.buffers().delta_v;
  if (call.step == 0) poke_float(session, tensor, tensor.count(), 0);
}

void stale_output(Fault& fault, SparseSession& session, const StageCall& call, bool before) {
  if (call.step != 0) return;
  if (before) fault.saved = peek(session, reading(session), 0, 1);
  if (!before) poke(session, reading(session), 0, fault.saved);
}

void extra_atomic(Fault&, SparseSession& session, const StageCall& call, bool) {
  if (call.step == 0) session.backend().add_in_any_order(reading(session).as<float>());
}

void off_stream(Fault&, SparseSession& session, const StageCall& call, bool) {
  if (call.step == 0) session.backend().add_off_stream(reading(session).as<float>());
}

void corrupted_later(Fault& fault, SparseSession& session, const StageCall& call, bool) {
  constexpr int kHonestPasses = 2;
  if (call.step == 0 && fault.passes++ >= kHonestPasses) flip_last_bit(session, reading(session), 0);
}

void nan_output(Fault&, SparseSession& session, const StageCall& call, bool) {
  if (call.step == 0) poke_float(session, reading(session), 0, std::numeric_limits<float>::quiet_NaN());
}

void overwritten_input(Fault&, SparseSession& session, const StageCall& call, bool) {
  if (call.step == 0) poke_float(session, session.buffers().beta, 0, 0.25f);
}

void not_rolled_back(Fault& fault, SparseSession& session, const StageCall& call, bool before) {
  if (call.step != 0) return;
  const std::int64_t row = first_row(session, session.buffers().undo_record);
  if (before) fault.saved = peek(session, session.buffers().bank, row, session.buffers().dims.head_dim);
  if (!before) poke(session, session.buffers().bank, row, fault.saved);
}

void one_bit(Fault&, SparseSession& session, const StageCall& call, bool) {
  if (call.step == 1) flip_last_bit(session, reading(session), first_of(session, 1));
}

void geometry_shows(Fault&, SparseSession& session, const StageCall& call, bool) {
  const bool shows = session.backend().device() ? session.geometry().tile == 96 : session.host_threads() == 1;
  if (call.step == 0 && shows) flip_last_bit(session, reading(session), 0);
}

void launch_shows(Fault&, SparseSession& session, const StageCall& call, bool) {
  if (call.step == 0 && session.launch_name() == "eager") flip_last_bit(session, reading(session), 0);
}

void variant_shows(Fault&, SparseSession& session, const StageCall& call, bool) {
  const auto* variant = session.plan().group_entries.variant;
  if (call.step == 0 && variant && variant->name == "radix") flip_last_bit(session, reading(session), 0);
}

void neighbour_leaks(Fault&, SparseSession& session, const StageCall& call, bool) {
  const std::int64_t last = session.buffers().dims.streams - 1;
  if (last == 0) return;
  const std::int64_t element = first_of(session, call.step, last);
  poke_float(session, reading(session), element,
             peek_float(session, reading(session), element) +
                 peek_float(session, reading(session), first_of(session, call.step)));
}

void short_chunks_wrong(Fault&, SparseSession& session, const StageCall& call, bool) {
  if (call.step == 0 && session.buffers().dims.chunk < 8)
    poke_float(session, reading(session), 0, peek_float(session, reading(session), 0) + 1);
}

void address_shows(Fault& fault, SparseSession& session, const StageCall& call, bool) {
  if (!fault.first_place) fault.first_place = session.buffers().bank.data;
  if (call.step == 0 && fault.first_place != session.buffers().bank.data) flip_last_bit(session, reading(session), 0);
}

void process_shows(Fault&, SparseSession& session, const StageCall& call, bool) {
  if (call.step == 0) poke_float(session, reading(session), 0, static_cast<float>(::getpid()));
}

void load_shows(Fault& fault, SparseSession& session, const StageCall& call, bool) {
  if (call.step == 0 && fault.beside == LoadKind::disturbing) flip_last_bit(session, reading(session), 0);
}

void residency_shows(Fault& fault, SparseSession& session, const StageCall& call, bool) {
  if (call.step == 0 && fault.beside == LoadKind::half_device) flip_last_bit(session, reading(session), 0);
}

void crash(Fault&, SparseSession& session, const StageCall& call, bool) {
  if (call.step == 0) session.backend().crash();
}

void never_ends(Fault&, SparseSession& session, const StageCall& call, bool) {
  if (call.step == 0) session.backend().never_end();
}

constexpr Fault::Kind kAll[] = {
    {"swapped_order", "write", "replay", "two members of every group are added in the other order", false, true,
     swapped_order},
    {"swapped_elements", "write", "oracle", "two elements of a row are swapped", false, false, swapped_elements},
    {"missed_element", "write", "oracle", "an element of a row is left as it was", false, true, missed_element},
    {"out_of_bounds", "mix", "guards", "a float past the end of a tensor, inside the allocation, is written", false,
     false, out_of_bounds},
    {"stale_output", "mix", "poison", "an element is never written", false, true, stale_output},
    {"extra_atomic", "mix", "repeat", "numbers are added to an element in no fixed order", false, false, extra_atomic},
    {"off_stream", "mix", "repeat", "an element is still added to while nobody waits for it", false, false, off_stream},
    {"corrupted_later", "mix", "repeat", "a bit is wrong from the third pass on", false, false, corrupted_later},
    {"nan_output", "mix", "oracle", "an element is not a number", false, false, nan_output},
    {"overwritten_input", "undo", "guards", "an input is overwritten, always with the same value", false, false,
     overwritten_input},
    {"not_rolled_back", "undo", "bank_restored", "a row is not rolled back", false, true, not_rolled_back},
    {"one_bit", "mix", "replay", "one bit differs from the replay in step 1", false, false, one_bit},
    {"geometry_shows", "mix", "invariance", "bits depend on the launch geometry (host: number of threads)", false,
     false, geometry_shows},
    {"launch_shows", "mix", "invariance", "bits depend on the launch mode", true, false, launch_shows},
    {"neighbour_leaks", "mix", "invariance", "a stream sees its neighbour", false, false, neighbour_leaks},
    {"short_chunks_wrong", "mix", "invariance", "short chunks are computed wrongly", false, false, short_chunks_wrong},
    {"variant_shows", "mix", "agree", "bits depend on another stage's variant", true, false, variant_shows},
    {"address_shows", "mix", "fragmented", "bits depend on where memory lies", false, false, address_shows},
    {"process_shows", "mix", "process", "bits depend on the process", false, false, process_shows},
    {"load_shows", "mix", "disturbed", "bits depend on what runs beside the pass", false, false, load_shows},
    {"residency_shows", "mix", "half_device", "bits depend on how many multiprocessors are free", true, false,
     residency_shows},
    {"crash", "mix", Fault::kIsolate,
     "an illegal address is written, the CUDA context is lost (host: the process aborts)", false, false, crash},
    {"never_ends", "mix", Fault::kIsolate, "a kernel never ends (host: the stage)", false, false, never_ends},
};

}  // namespace

std::span<const PlantedFault::Kind> PlantedFault::all() { return kAll; }

const PlantedFault::Kind* PlantedFault::find(std::string_view name) {
  for (const Kind& kind : kAll)
    if (kind.name == name) return &kind;
  return nullptr;
}

}  // namespace sdm
