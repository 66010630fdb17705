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
  Digest digest;
  backend.read_back(tensor.data, tensor.bytes(),
                    [&](std::span<const std::byte> piece) { digest.update_values(tensor.dtype, piece); });
  return digest.hex();
}

}  // namespace sdm
