#include "run/tensor_io.h"

#include <algorithm>

#include "base/digest.h"

namespace sdm {

std::vector<std::byte> download_tensor(Backend& backend, const Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes());
  backend.download(bytes.data(), tensor.data, bytes.size());
  return bytes;
}

std::string digest_of(Backend& backend, const Tensor& tensor) {
  constexpr std::size_t kPiece = std::size_t{64} << 20;
  Digest digest;
  std::vector<std::byte> piece;
  const auto* at = tensor.as<const std::byte>();
  for (std::uint64_t done = 0; done < tensor.bytes(); done += kPiece) {
    const std::size_t size = std::min<std::uint64_t>(kPiece, tensor.bytes() - done);
    const std::byte* source = at + done;
    if (backend.device()) {
      piece.resize(size);
      backend.download(piece.data(), source, size);
      source = piece.data();
    }
    digest.update_values(tensor.dtype, {source, size});
  }
  return digest.hex();
}

}  // namespace sdm
