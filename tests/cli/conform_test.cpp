// Stored outputs of the published kernels against the replay, and damaged files against the sentences they deserve.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "process.h"

namespace sdm::test {
namespace {

const std::string kGolden = SDM_SOURCE_DIR "/tests/golden";
const std::string kSmall = kGolden + "/tail20.safetensors";

/// First byte of a tensor's data inside the file.
std::size_t offset_of(const std::string& bytes, const std::string& tensor) {
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto json = nlohmann::json::parse(bytes.substr(8, header));
  return 8 + header + json.at(tensor).at("data_offsets").at(0).get<std::size_t>();
}

void expect_damaged(const std::string& bytes, const std::string& word) {
  TempFolder folder;
  const Outcome outcome = bench({"conform", folder.file("damaged.safetensors", bytes), "--device", "cpu"});
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("damaged.safetensors"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(word), std::string::npos) << "no '" << word << "' in: " << outcome.err;
}

TEST(Conform, EveryStoredCaseIsEqual) {
  const Outcome outcome = bench({"conform", kGolden, "--device", "cpu"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find(" 0 differ, 0 refused"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("DIFFERS"), std::string::npos) << outcome.out;
}

TEST(Conform, OneFlippedBitIsFoundAndNamed) {
  TempFolder folder;
  std::string bytes = slurp(kSmall);
  bytes[offset_of(bytes, "out_retrieved") + 4 * 3] ^= 1;  // the last bit of element 3
  const Outcome outcome = bench({"conform", folder.file("flipped.safetensors", bytes), "--device", "cpu"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  for (const char* word : {"gather/replay", "out_retrieved", ", 3]: expected", "got", "1 differ"})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << "no '" << word << "' in: " << outcome.out;
}

TEST(Conform, DamagedFilesAreRefusedWithASentence) {
  const std::string whole = slurp(kSmall);
  ASSERT_GT(whole.size(), 1000u);
  expect_damaged(whole.substr(0, whole.size() - 100), "");
  expect_damaged(whole.substr(0, 4), "");
  expect_damaged("", "");
  std::string huge_header = whole;
  std::memset(huge_header.data(), 0xff, 8);
  expect_damaged(huge_header, "header");
  std::string no_json = whole;
  no_json[8] = '[';
  expect_damaged(no_json, "");
  std::string renamed = whole;
  renamed.replace(renamed.find("\"out_bank\""), 10, "\"out_bonk\"");
  expect_damaged(renamed, "out_bank");
}

TEST(Conform, WhatIsNotThere) {
  EXPECT_EQ(bench({"conform", "/nowhere"}).code, 2);
  TempFolder folder;
  const Outcome empty = bench({"conform", (folder / ".").string()});
  EXPECT_EQ(empty.code, 2);
  EXPECT_NE(empty.err.find("no *.safetensors file"), std::string::npos) << empty.err;
}

}  // namespace
}  // namespace sdm::test
