#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "numerics/formats.h"

namespace sdm {
namespace {

TEST(Int4, TiesGoToEvenAndTheRangeIsClamped) {
  // Every quarter from -9 to 9: integers, ties, and what lies between.
  for (int quarter = -36; quarter <= 36; ++quarter) {
    const float x = static_cast<float>(quarter) / 4.0f;
    const int floor = static_cast<int>(std::floor(x));
    const float rest = x - static_cast<float>(floor);
    const int nearest = rest < 0.5f ? floor : rest > 0.5f ? floor + 1 : floor % 2 == 0 ? floor : floor + 1;
    EXPECT_EQ(to_int4(x), std::min(7, std::max(-8, nearest))) << x;
  }
}

TEST(Int4, NeighboursOfTies) {
  for (int i = -8; i < 7; ++i) {
    const float tie = static_cast<float>(i) + 0.5f;
    EXPECT_EQ(to_int4(std::nextafter(tie, -100.0f)), i) << tie;
    EXPECT_EQ(to_int4(std::nextafter(tie, 100.0f)), i + 1) << tie;
  }
}

TEST(Int4, WhatIsNoNumber) {
  EXPECT_EQ(to_int4(std::numeric_limits<float>::quiet_NaN()), 0);
  EXPECT_EQ(to_int4(std::numeric_limits<float>::infinity()), 7);
  EXPECT_EQ(to_int4(-std::numeric_limits<float>::infinity()), -8);
  EXPECT_EQ(to_int4(3e38f), 7);
}

TEST(Int4, PairsShareAByteHighNibbleFirst) {
  EXPECT_EQ(pack_int4(1, 2), 0x12);
  EXPECT_EQ(pack_int4(-8, 7), 0x87);
  for (int even = -8; even < 8; ++even)
    for (int odd = -8; odd < 8; ++odd) {
      const std::uint8_t byte = pack_int4(even, odd);
      EXPECT_EQ(int4_even(byte), even);
      EXPECT_EQ(int4_odd(byte), odd);
    }
}

}  // namespace
}  // namespace sdm
