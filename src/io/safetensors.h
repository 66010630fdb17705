#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace sdm {

/// The element types a safetensors file may name (https://github.com/huggingface/safetensors, "Format"), in the order
/// in which the common writer sorts them: last first, so that wider types come first and every tensor stays aligned.
enum class StoredType : std::uint8_t {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  f64,
  i64,
  u64
};

std::string_view name_of(StoredType type);  ///< as in the file: "BF16", "F32", "F8_E4M3", ..
std::size_t size_of(StoredType type);       ///< bytes per element
StoredType stored_type(DType dtype);

/// A row-major tensor inside an open file. The bytes are little-endian, start at any alignment (files of other writers
/// need not align them) and live as long as the SafetensorsFile.
struct StoredTensor {
  StoredType type = StoredType::u8;
  std::vector<std::int64_t> shape;  ///< empty: a scalar
  std::span<const std::byte> bytes;

  std::int64_t elements() const;
};

/// A validated safetensors file, mapped read-only. Opening reads nothing but the header, whose every claim is checked
/// against the file's size before anything is allocated for it. The file must not be cut short while it is open.
class SafetensorsFile {
 public:
  /// Throws UserError, one sentence with the path and the first thing wrong: missing or unreadable file, header longer
  /// than the file or than 100 MB, malformed JSON, duplicate or unknown keys, unknown dtype, a shape that does not fit
  /// its byte range, ranges that overlap, leave holes or do not end with the file.
  static SafetensorsFile open(const std::string& path);

  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;
  ~SafetensorsFile();

  const std::string& path() const { return path_; }
  std::vector<std::string> names() const;  ///< ascending
  bool contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }

  /// Throws UserError with a did-you-mean if there is no such tensor.
  const StoredTensor& tensor(std::string_view name) const;

  /// The tensor, which must have this type and shape; an extent of -1 stands for any. Throws UserError with what was
  /// expected and what was found.
  const StoredTensor& require(std::string_view name, DType dtype, std::span<const std::int64_t> shape) const;
  const StoredTensor& require(std::string_view name, DType dtype, std::initializer_list<std::int64_t> shape) const {
    return require(name, dtype, std::span(shape.begin(), shape.size()));
  }

  /// require(), copied to aligned storage. sizeof(T) must be the element size; the bits are taken as they are (an I32
  /// tensor may be read as std::uint32_t, a BF16 tensor as bf16_t).
  template <typename T>
  std::vector<T> read(std::string_view name, DType dtype, std::initializer_list<std::int64_t> shape) const {
    const StoredTensor& stored = require(name, dtype, shape);
    check_element_size(name, stored, sizeof(T));
    std::vector<T> values(stored.bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), stored.bytes.data(), stored.bytes.size());
    return values;
  }

 private:
  SafetensorsFile() = default;
  void check_element_size(std::string_view name, const StoredTensor& stored, std::size_t size) const;

  std::string path_;
  std::span<const std::byte> mapping_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

/// A tensor to be written; `bytes` must be elements * size_of(type) long.
struct TensorToWrite {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Writes a file whose bytes depend on nothing but the arguments: tensors by type (widest first) and name, metadata by
/// key, the header padded with spaces to a multiple of 8. Atomic, see io/atomic_file.h. Throws UserError for a path
/// that cannot be written (or exists, without `force`), InternalError for tensors that contradict themselves.
void write_safetensors(const std::string& path, std::vector<TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata, bool force);

}  // namespace sdm
