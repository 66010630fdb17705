#include "base/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace sdm {
namespace {

TEST(Statistics, QuantilesAreType7) {
  const std::vector<double> four = {4, 1, 3, 2};
  const Summary s = summarize(four);
  EXPECT_EQ(s.count, 4u);
  EXPECT_DOUBLE_EQ(s.q1, 1.75);
  EXPECT_DOUBLE_EQ(s.median, 2.5);
  EXPECT_DOUBLE_EQ(s.q3, 3.25);
  EXPECT_DOUBLE_EQ(s.p95, 3.85);
  EXPECT_DOUBLE_EQ(s.min, 1);
  EXPECT_DOUBLE_EQ(s.max, 4);
  EXPECT_DOUBLE_EQ(s.relative_iqr(), 0.6);
  EXPECT_DOUBLE_EQ(median(std::vector<double>{5, 1, 9}), 5);
}

TEST(Statistics, OneSampleAndNone) {
  const Summary one = summarize(std::vector<double>{7});
  EXPECT_EQ(one.q1, 7);
  EXPECT_EQ(one.p95, 7);
  EXPECT_EQ(one.relative_iqr(), 0);
  const Summary none = summarize({});
  EXPECT_EQ(none.count, 0u);
  EXPECT_TRUE(std::isinf(none.relative_iqr()));
  EXPECT_THROW(median({}), InternalError);
  EXPECT_THROW(summarize(std::vector<double>{1, std::nan("")}), InternalError);
}

TEST(Statistics, OrderNeverMattersAndQuantilesAreOrdered) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> samples(1 + random() % 50);
    for (double& x : samples) x = std::uniform_real_distribution<double>(-10, 10)(random);
    const Summary first = summarize(samples);
    std::shuffle(samples.begin(), samples.end(), random);
    const Summary again = summarize(samples);
    EXPECT_EQ(first.median, again.median);
    EXPECT_EQ(first.q3, again.q3);
    EXPECT_LE(first.min, first.q1);
    EXPECT_LE(first.q1, first.median);
    EXPECT_LE(first.median, first.q3);
    EXPECT_LE(first.q3, first.max);
    EXPECT_LE(first.p95, first.max);
  }
}

TEST(Text, EditDistance) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("gather", "gather"), 0u);
  EXPECT_EQ(edit_distance("gahter", "gather"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Text, DidYouMean) {
  const std::vector<std::string> stages = {"gather", "gather_grad", "write", "undo", "mix"};
  EXPECT_EQ(nearest("gater", stages), "gather");
  EXPECT_EQ(nearest("Write", stages), "write");
  EXPECT_EQ(nearest("gather_gard", stages), "gather_grad");
  EXPECT_EQ(nearest("banana", stages), "");
  EXPECT_EQ(nearest("x", stages), "");
  EXPECT_EQ(nearest("", stages), "");
  EXPECT_EQ(did_you_mean("undoo", stages), "; did you mean 'undo'?");
  EXPECT_EQ(did_you_mean("qqqqqq", stages), "");
}

TEST(Text, HumanUnits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.500 KiB");
  EXPECT_EQ(human_bytes(141.0 * (1 << 30)), "141.0 GiB");
  EXPECT_EQ(human_microseconds(0.85), "0.850 µs");
  EXPECT_EQ(human_microseconds(465.12), "465.1 µs");
  EXPECT_EQ(human_microseconds(999.96), "1.000 ms");
  EXPECT_EQ(human_microseconds(3328), "3.328 ms");
  EXPECT_EQ(human_seconds(12.5), "12.50 s");
  EXPECT_EQ(human_seconds(185), "3 min 05 s");
  EXPECT_EQ(human_seconds(7620), "2 h 07 min");
  EXPECT_EQ(human_microseconds(std::nan("")), "–");
  EXPECT_EQ(with_thousands(std::int64_t{0}), "0");
  EXPECT_EQ(with_thousands(std::int64_t{-1234567}), "-1,234,567");
  EXPECT_EQ(with_thousands(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
  EXPECT_EQ(with_thousands(12345.678, 1), "12,345.7");
  EXPECT_EQ(with_thousands(999.99, 1), "1,000.0");
}

TEST(Text, DisplayWidth) {
  EXPECT_EQ(display_width("µs ✓"), 4u);
  EXPECT_EQ(display_width("日本"), 4u);
  EXPECT_EQ(display_width("e\xCC\x81"), 1u);
  EXPECT_EQ(display_width("\xff\xfe"), 2u);
  EXPECT_EQ(shorten("abcdef", 4), "abc…");
  EXPECT_EQ(shorten("日本語", 4), "日…");
  EXPECT_EQ(shorten("abc", 3), "abc");
  EXPECT_EQ(valid_utf8("a\xff µ\xed\xa0\x80"), "a\xEF\xBF\xBD µ\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

}  // namespace
}  // namespace sdm
