#include "io/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "io/atomic_file.h"
#include "io/safetensors_header.h"

namespace sdm {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data are little-endian and used in place");

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text;
  for (const std::int64_t extent : shape)
    text += (text.empty() ? "" : ", ") + (extent < 0 ? std::string("any") : fmt::format("{}", extent));
  return fmt::format("[{}]", text);
}

/// Maps a regular file whole. An empty file gives an empty span.
std::span<const std::byte> map_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) throw UserError(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  struct stat info {};
  const bool regular = ::fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  const auto size = regular ? static_cast<std::size_t>(info.st_size) : 0;
  void* memory = size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : nullptr;
  const int error = errno;
  ::close(file);
  if (!regular) throw UserError(fmt::format("{} is not a file", path));
  if (memory == MAP_FAILED) throw UserError(fmt::format("cannot read {}: {}", path, std::strerror(error)));
  return {static_cast<const std::byte*>(memory), size};
}

/// The JSON text between the length and the data.
std::string_view header_text(const std::string& path, std::span<const std::byte> file) {
  if (file.size() < 8)
    throw UserError(
        fmt::format("{} is no safetensors file: it has {} bytes, too few for the header length", path, file.size()));
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  if (length > kMaxSafetensorsHeader)
    throw UserError(fmt::format("{} is no safetensors file: its header would be {} bytes long (at most {} are allowed)",
                                path, length, kMaxSafetensorsHeader));
  if (length > file.size() - 8)
    throw UserError(fmt::format("{} is truncated: its header needs {} bytes, but only {} follow the header length",
                                path, length, file.size() - 8));
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, length);
  if (!text.starts_with('{'))
    throw UserError(fmt::format("{} is no safetensors file: its header does not begin with '{{'", path));
  return text;
}

/// The format wants the byte ranges to tile the data: no overlap, no hole, nothing after the last.
void check_tiling(const std::string& path, const SafetensorsHeader& header, std::uint64_t data_bytes) {
  std::vector<std::pair<const std::string*, const HeaderEntry*>> entries;
  for (const auto& [name, entry] : header.tensors) entries.emplace_back(&name, &entry);
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  std::uint64_t end = 0;
  for (const auto& [name, entry] : entries) {
    const std::string who = fmt::format("{}: tensor '{}'", path, shorten(*name, 80));
    if (entry->begin < end)
      throw UserError(
          fmt::format("{} begins at byte {}, inside the tensor before it, which ends at {}", who, entry->begin, end));
    if (entry->begin > end)
      throw UserError(fmt::format("{} begins at byte {}, which leaves a hole after byte {}", who, entry->begin, end));
    if (entry->end > data_bytes)
      throw UserError(fmt::format("{} ends at byte {}, but the file has only {} bytes of data (truncated?)", who,
                                  entry->end, data_bytes));
    end = entry->end;
  }
  if (end != data_bytes) throw UserError(fmt::format("{} has {} bytes after its last tensor", path, data_bytes - end));
}

}  // namespace

StoredType stored_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return StoredType::f32;
    case DType::bf16: return StoredType::bf16;
    case DType::f16: return StoredType::f16;
    case DType::i32: return StoredType::i32;
    case DType::u32: return StoredType::u32;
    case DType::i64: return StoredType::i64;
    case DType::u8: return StoredType::u8;
  }
  SDM_REQUIRE(false, "unknown dtype {}", static_cast<int>(dtype));
}

std::int64_t StoredTensor::elements() const { return static_cast<std::int64_t>(bytes.size() / size_of(type)); }

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  SafetensorsFile file;
  file.path_ = path;
  file.mapping_ = map_file(path);
  const std::string_view text = header_text(path, file.mapping_);
  SafetensorsHeader header = parse_safetensors_header(path, text);
  const std::span<const std::byte> data = file.mapping_.subspan(8 + text.size());
  check_tiling(path, header, data.size());
  for (auto& [name, entry] : header.tensors) {
    const std::span<const std::byte> bytes = data.subspan(entry.begin, entry.end - entry.begin);
    file.tensors_.emplace(name, StoredTensor{entry.type, std::move(entry.shape), bytes});
  }
  file.metadata_ = std::move(header.metadata);
  return file;
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      mapping_(std::exchange(other.mapping_, {})),
      tensors_(std::move(other.tensors_)),
      metadata_(std::move(other.metadata_)) {}

SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(mapping_, other.mapping_);
  std::swap(tensors_, other.tensors_);
  std::swap(metadata_, other.metadata_);
  return *this;
}

SafetensorsFile::~SafetensorsFile() {
  if (!mapping_.empty()) ::munmap(const_cast<std::byte*>(mapping_.data()), mapping_.size());
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

const StoredTensor& SafetensorsFile::tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw UserError(fmt::format("{} has no tensor '{}'{}", path_, name, did_you_mean(name, names())));
  return found->second;
}

const StoredTensor& SafetensorsFile::require(std::string_view name, DType dtype,
                                             std::span<const std::int64_t> shape) const {
  const StoredTensor& found = tensor(name);
  const bool same_shape = std::equal(found.shape.begin(), found.shape.end(), shape.begin(), shape.end(),
                                     [](std::int64_t is, std::int64_t asked) { return asked < 0 || is == asked; });
  if (found.type != stored_type(dtype) || !same_shape)
    throw UserError(fmt::format("{}: tensor '{}' must be {} {}, but is {} {}", path_, name, name_of(stored_type(dtype)),
                                shape_text(shape), name_of(found.type), shape_text(found.shape)));
  return found;
}

void SafetensorsFile::check_element_size(std::string_view name, const StoredTensor& stored, std::size_t size) const {
  SDM_REQUIRE(size_of(stored.type) == size, "{}: tensor '{}' of {} was read as elements of {} bytes", path_, name,
              name_of(stored.type), size);
}

void write_safetensors(const std::string& path, std::vector<TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata, bool force) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorToWrite& a, const TensorToWrite& b) {
    return a.type != b.type ? a.type > b.type : a.name < b.name;
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    std::uint64_t bytes = size_of(tensor.type);
    for (const std::int64_t extent : tensor.shape) bytes *= static_cast<std::uint64_t>(extent);
    SDM_REQUIRE(bytes == tensor.bytes.size(), "tensor '{}' of shape {} has {} bytes instead of {}", tensor.name,
                shape_text(tensor.shape), tensor.bytes.size(), bytes);
    SDM_REQUIRE(!header.contains(tensor.name) && tensor.name != "__metadata__", "tensor '{}' twice", tensor.name);
    header[tensor.name] = {
        {"dtype", name_of(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  AtomicFile file(path, force);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(text);
  for (const TensorToWrite& tensor : tensors) file.write(tensor.bytes);
  file.commit();
}

}  // namespace sdm
