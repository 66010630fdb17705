#pragma once

namespace sdm::test {

/// Built with sanitizers: the address space, freed memory and fatal signals are theirs, and everything takes longer.
inline constexpr bool kSanitized = SDM_SANITIZED;

}  // namespace sdm::test
