#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "config/located_json.h"
#include "config_support.h"

namespace sdm::config {
namespace {

/// The problems of a text as one string; empty when it is JSON.
std::string json_problems(const std::string& text, const JsonLimits& limits = {}) {
  Problems problems;
  read_json(text, "f", problems, limits);
  try {
    problems.raise();
  } catch (const ConfigErrors& errors) {
    return errors.what();
  }
  return "";
}

JsonNode json(const std::string& text) {
  Problems problems;
  auto node = read_json(text, "f", problems);
  problems.raise();
  return std::move(*node);
}

TEST(LocatedJson, ValuesKeepTheirPlaces) {
  const JsonNode node = json(
      "\xef\xbb\xbf{ // first\n  \"a\": [1, -2,\n    2.5], /* two\nlines */ \"b\": {\"c\": "
      "\"x\\u00e9\\ud83d\\ude00\\n\"}\n}\n");
  ASSERT_EQ(node.members.size(), 2u);
  const JsonNode& a = *node.find("a");
  EXPECT_EQ(a.at.line, 2);
  EXPECT_EQ(a.at.column, 8);
  EXPECT_EQ(a.items[0].scalar, Scalar(std::int64_t{1}));
  EXPECT_EQ(a.items[1].scalar, Scalar(std::int64_t{-2}));
  EXPECT_EQ(a.items[2].scalar, Scalar(2.5));
  EXPECT_EQ(a.items[2].at.line, 3);
  EXPECT_EQ(node.members[1].at.line, 4);
  EXPECT_EQ(node.find("b")->find("c")->scalar, Scalar(std::string("x\xc3\xa9\xf0\x9f\x98\x80\n")));
}

TEST(LocatedJson, Integers) {
  EXPECT_EQ(json("9223372036854775807").scalar, Scalar(std::int64_t{9223372036854775807}));
  EXPECT_EQ(json("18446744073709551615").scalar, Scalar(std::uint64_t{18446744073709551615u}));
  EXPECT_EQ(json("18446744073709551616").scalar, Scalar(18446744073709551616.0));
  EXPECT_EQ(json("-9223372036854775809").scalar, Scalar(-9223372036854775809.0));
}

TEST(LocatedJson, WhatIsNotJsonIsNamedWithItsPlace) {
  struct Bad {
    std::string text, says;
  };
  const std::vector<Bad> all = {
      {"", "f:1: column 1: the file holds no JSON value"},
      {" \n // only a comment", "f:2: column 19: the file holds no JSON value"},
      {"{\n\"a\": 1\n/* never", "f:3: column 1: the comment that begins here"},
      {"{\"a\": 1,}", "f:1: column 9: a comma before '}'"},
      {"[1,\n]", "f:2: column 1: a comma before ']'"},
      {"{\"a\": 1 \"b\": 2}", "unexpected '\"'; expected ',' or '}' in an object"},
      {"{\"a\" 1}", "expected ':' after the key \"a\""},
      {"{a: 1}", "unexpected 'a'; expected a key in double quotes"},
      {"{\"a\": NaN}", "\"NaN\" is no JSON value"},
      {"{\"a\": Infinity}", "\"Infinity\" is no JSON value"},
      {"{\"a\": -Infinity}", "malformed number: no digit after '-'"},
      {"[True]", "did you mean \"true\"?"},
      {"[1e999]", "the number 1e999 is outside the range"},
      {"[01]", "malformed number: a leading 0"},
      {"[1.]", "malformed number: no digit after '.'"},
      {"[1e]", "malformed number: no digit in the exponent"},
      {"[+1]", "unexpected '+'"},
      {"[\"abc\n\"]", "f:1: column 2: the text that begins here is never closed"},
      {"[\"abc", "is never closed"},
      {"[\"a\tb\"]", "control character 0x09"},
      {"[\"\\x\"]", "unknown escape"},
      {"[\"\\ud800\"]", "half a surrogate pair"},
      {"[\"\\ud800\\u0041\"]", "half a surrogate pair"},
      {"[\"\\u12\"]", "four hexadecimal digits"},
      {"{} {}", "f:1: column 4: unexpected '{' after the end"},
      {"[", "the file ends; expected a JSON value"},
      {"{\"a\": 1", "the file ends; expected ',' or '}'"},
      {"{\"a\":\n \"\xff\"}", "f:2: byte 0xff is not UTF-8"},
      {"\"\xc0\xaf\"", "byte 0xc0 is not UTF-8"},
      {"\"\xed\xa0\x80\"", "byte 0xed is not UTF-8"},
      {std::string("{\0}", 3), "unexpected byte 0x00"},
      {std::string(100'000, '['), "nested deeper than 32 levels"},
  };
  for (const Bad& bad : all)
    EXPECT_NE(json_problems(bad.text).find(bad.says), std::string::npos) << bad.text.substr(0, 80) << "\n"
                                                                         << json_problems(bad.text);
}

TEST(LocatedJson, DuplicateKeysAreAllNamed) {
  const std::string says = json_problems("{\"a\": {\"b\": 1,\n\"b\": 2},\n\"a\": 3, \"c\": [{\"d\": 1, \"d\": 1}]}");
  EXPECT_EQ(says,
            "f:2: a.b: the key \"b\" stands twice in one object\n"
            "f:3: a: the key \"a\" stands twice in one object\n"
            "f:3: c[0].d: the key \"d\" stands twice in one object");
}

TEST(LocatedJson, CostIsBounded) {
  JsonLimits limits;
  limits.values = 10;
  EXPECT_NE(json_problems("[1,2,3,4,5,6,7,8,9,10]", limits).find("more than 10 values"), std::string::npos);
  EXPECT_EQ(json_problems("[1,2,3,4,5,6,7,8,9]", limits), "");
  limits.bytes = 5;
  EXPECT_NE(json_problems("[1, 2]", limits).find("6 bytes long; at most 5"), std::string::npos);
  limits = {};
  limits.depth = 2;
  EXPECT_EQ(json_problems("[[1]]", limits), "");
  EXPECT_NE(json_problems("[[[1]]]", limits).find("nested deeper than 2"), std::string::npos);
}

TEST(LocatedJson, ManyProblemsStayCheap) {
  std::string text = test::sparse_config("");
  std::string keys;
  for (int i = 0; i < 50'000; ++i) keys.append(fmt::format("\"wrong{}\": 0, ", i));
  text.insert(1, keys);
  const std::string problems = test::problems_of(text);
  EXPECT_EQ(std::count(problems.begin(), problems.end(), '\n'), 200);
  EXPECT_NE(problems.find("\nand 49800 more"), std::string::npos) << problems.substr(problems.size() - 100);
}

/// Mutated configs end in cases or in ConfigErrors, never in anything else. Sanitizers see the rest.
TEST(LocatedJson, MutatedConfigsNeverEscape) {
  const unsigned seed = 20240607;
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const std::string original = test::read_text(std::string(SDM_SOURCE_DIR) + "/configs/smoke.json");
  ASSERT_FALSE(original.empty());
  const std::string bytes = "{}[]\",:/*0159-.eE\\u \n\ttrfalsn\x80\xff";
  int legal = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = original;
    const std::size_t edits = below(4);
    for (std::size_t i = 0; i < edits; ++i) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0: text[at] = bytes[below(bytes.size())]; break;
        case 1: text.insert(at, 1, bytes[below(bytes.size())]); break;
        case 2: text.erase(at, 1 + below(5)); break;
        default: text.insert(at, text.substr(below(text.size()), below(30))); break;
      }
    }
    legal += test::problems_of(text).empty() ? 1 : 0;  // other exceptions fail the test
  }
  EXPECT_GT(legal, 300) << "seed " << seed;
  EXPECT_LT(legal, 1700) << "seed " << seed;
}

}  // namespace
}  // namespace sdm::config
