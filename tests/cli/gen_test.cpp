// The verb `gen`, and runs of stored inputs, end to end.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "io/safetensors.h"
#include "tests/cli/compare_support.h"

namespace sdm::test {
namespace {

using Json = nlohmann::json;

const std::string kSmoke = std::string(SDM_SOURCE_DIR) + "/configs/smoke.json";

class GenVerb : public testing::Test {
 protected:
  ToolRun gen(const std::string& more) const {
    return folder_.tool("gen " + kSmoke + " --out " + folder_.file("out") + " " + more);
  }
  ScratchFolder folder_;
};

TEST_F(GenVerb, StoredInputsGiveTheSameBits) {
  const ToolRun made = gen("--filter 'raw_bf16|fp8_hot|int4_wide|bf16_of_f32|per_entry_i64' --outputs");
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const std::string out = folder_.file("out/");
  EXPECT_NE(made.out.find("smoke_raw_bf16.safetensors"), std::string::npos) << made.out;

  const std::string quiet = " --device cpu --no-checks --no-timing --quiet -o ";
  ASSERT_EQ(folder_.tool("run " + kSmoke + " --filter 'bf16|fp8|int4|i64'" + quiet + folder_.file("a.json")).exit_code,
            0);
  const ToolRun again = folder_.tool("run " + out + "replay.json" + quiet + folder_.file("b.json"));
  ASSERT_EQ(again.exit_code, 0) << again.err;
  const ToolRun compared =
      folder_.tool("compare --digests --require-all " + folder_.file("a.json") + " -- " + folder_.file("b.json"));
  EXPECT_EQ(compared.exit_code, 0) << compared.out << compared.err;

  // The stored outputs are what the result's digests speak of.
  const Json result = Json::parse(text_of(folder_.file("a.json")))["cases"][0];
  ASSERT_EQ(result["id"], "smoke/raw_bf16");
  const SafetensorsFile outputs = SafetensorsFile::open(out + "smoke_raw_bf16.outputs.safetensors");
  const auto hex = [&](const char* name, DType dtype) { return digest_values(dtype, outputs.tensor(name).bytes); };
  EXPECT_EQ(hex("reading", DType::f32), result["digests"]["mix"]["reading"]);
  EXPECT_EQ(hex("bank_after_forward", DType::bf16), result["digests"]["write"]["bank"]);
  EXPECT_EQ(hex("bank", DType::bf16), result["digests"]["undo"]["bank"]);
  EXPECT_EQ(hex("grad", DType::bf16), result["digests"]["read_grad"]["grad"]);
  EXPECT_EQ(hex("d_k", DType::f32), result["digests"]["parameter_gradients"]["d_k"]);
}

TEST_F(GenVerb, KeepsWhatIsThereAndLeavesDenseOut) {
  ASSERT_EQ(gen("--filter raw_bf16").exit_code, 0);
  const ToolRun twice = gen("--filter raw_bf16");
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_NE(twice.err.find("--force"), std::string::npos) << twice.err;
  EXPECT_EQ(gen("--filter raw_bf16 --force").exit_code, 0);
  const ToolRun dense = gen("--filter dense");
  EXPECT_EQ(dense.exit_code, 5);
  EXPECT_NE(dense.err.find("only sparse inputs can be stored"), std::string::npos) << dense.err;
  EXPECT_EQ(folder_.tool("gen " + kSmoke).exit_code, 2);  // --out is needed
}

TEST_F(GenVerb, ARunOfABrokenFileSaysWhere) {
  ASSERT_EQ(gen("--filter raw_bf16").exit_code, 0);
  const ToolRun other = folder_.tool("run " + folder_.file("out/replay.json") +
                                     " --device cpu --set workload.tokens=39 -o " + folder_.file("r.json"));
  EXPECT_EQ(other.exit_code, 5) << other.err;
  const Json result = Json::parse(text_of(folder_.file("r.json")));
  EXPECT_EQ(result["cases"][0]["status"], "error");
  EXPECT_NE(result["cases"][0]["reason"].get<std::string>().find("was made for tokens = 40, but workload.tokens is 39"),
            std::string::npos);
}

/// The text of the first block ```<language> of a page.
std::string code_block(const std::string& page, const std::string& language) {
  const std::string fence = "```" + language + "\n";
  const std::size_t begin = page.find(fence) + fence.size();
  return page.substr(begin, page.find("```", begin) - begin);
}

/// docs/captured_inputs.md: its Python saves a file with the real safetensors package, its config runs it.
TEST(CapturedFromPython, TheDocumentedSnippetWorks) {
  const ScratchFolder folder;
  if (folder.shell("python3 -c 'import safetensors, numpy'").exit_code != 0)
    GTEST_SKIP() << "no safetensors and numpy for python3 here";
  const std::string page = text_of(std::string(SDM_SOURCE_DIR) + "/docs/captured_inputs.md");
  const std::string model = R"(
random = np.random.default_rng(5)
P, T, W, R, D, SLOTS = 2, 21, 4, 3, 16, 64
slots_of = lambda n: np.stack([[random.choice(SLOTS, n, replace=False) for _ in range(T)] for _ in range(P)])
inputs = dict(write_slots=slots_of(W), read_slots=slots_of(R), k=random.normal(size=(P, T, W)) / 4, q=random.normal(size=(P, T, R)) / 4,
              g=-random.random((P, T)) / 10, v=random.normal(size=(P, T, D)), beta=random.random((P, T)),
              bank=random.normal(size=(P, SLOTS, D)), slots=SLOTS, chunk=8)
save_inputs("captured.safetensors", **inputs)
inputs["write_slots"][1, 17, 2] = inputs["write_slots"][1, 17, 0] = 9
save_inputs("twice.safetensors", **inputs)
)";
  folder.write("save.py", code_block(page, "python") + model);
  folder.write("captured.json", code_block(page, "json"));
  const std::string in_folder = "cd " + folder.file("") + " && ";
  const ToolRun saved = folder.shell(in_folder + "python3 save.py");
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  const std::string run = in_folder + SDM_BENCH_PATH + " run captured.json --device cpu --quiet ";
  const ToolRun good = folder.shell(run + "-o good.json");
  EXPECT_EQ(good.exit_code, 0) << good.err << text_of(folder.file("good.json")).substr(0, 3000);
  const ToolRun bad = folder.shell(run + "--set workload.distribution.file=twice.safetensors -o bad.json");
  EXPECT_EQ(bad.exit_code, 5) << bad.err;
  EXPECT_NE(text_of(folder.file("bad.json")).find("k_idx names slot 9 twice at stream 1, token 17 (entries 0 and 2)"),
            std::string::npos);
}

}  // namespace
}  // namespace sdm::test
