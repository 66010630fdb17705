#include "backend/arena.h"

#include <fmt/format.h>

namespace sdm {
namespace {

std::uint64_t padded(std::uint64_t bytes) { return (bytes + Arena::kAlign - 1) / Arena::kAlign * Arena::kAlign; }

/// A tensor's bytes, then guard bytes up to the next tensor.
std::uint64_t footprint(const Tensor& tensor) { return padded(tensor.bytes()) + Arena::kGuardBytes; }

std::size_t guard_bytes(const Tensor& tensor) { return static_cast<std::size_t>(footprint(tensor) - tensor.bytes()); }

}  // namespace

std::uint64_t Arena::bytes_for(const std::vector<Tensor*>& tensors) {
  std::uint64_t bytes = 0;
  for (const Tensor* tensor : tensors) bytes += footprint(*tensor);
  return bytes;
}

Arena::Arena(Backend& backend, const std::vector<Tensor*>& tensors)
    : backend_(backend), tensors_(tensors.begin(), tensors.end()), bytes_(bytes_for(tensors)) {
  memory_ = backend_.allocate(bytes_);
  auto* at = static_cast<std::uint8_t*>(memory_);
  for (Tensor* tensor : tensors) {
    tensor->data = at;
    at += footprint(*tensor);
  }
}

Arena::~Arena() { backend_.release(memory_); }

void Arena::write_guards() {
  for (const Tensor* tensor : tensors_)
    backend_.fill(static_cast<std::uint8_t*>(tensor->data) + tensor->bytes(), kGuardByte, guard_bytes(*tensor));
}

std::string Arena::first_broken_guard() const {
  std::vector<std::uint8_t> guard;
  for (const Tensor* tensor : tensors_) {
    guard.resize(guard_bytes(*tensor));
    backend_.download(guard.data(), static_cast<const std::uint8_t*>(tensor->data) + tensor->bytes(), guard.size());
    for (std::size_t i = 0; i < guard.size(); ++i)
      if (guard[i] != kGuardByte)
        return fmt::format("byte {} past the end of {} was overwritten (0x{:02x})", i, tensor->name, guard[i]);
  }
  return {};
}

}  // namespace sdm
