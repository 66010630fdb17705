// scripts/: what can be tried without a GPU and without the profilers.
#include <gtest/gtest.h>

#include "tests/cli/compare_support.h"

namespace sdm::test {
namespace {

std::string script(const std::string& name) { return std::string(SDM_SOURCE_DIR) + "/scripts/" + name; }

class NcuTable : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.shell("python3 -c ''").exit_code != 0) GTEST_SKIP() << "no python3 here";
  }
  ToolRun table(const std::string& arguments) const {
    return folder_.shell("python3 " + script("ncu_table.py") + " " + arguments);
  }
  ScratchFolder folder_;
};

TEST_F(NcuTable, SumsKernelsByPassAndStage) {
  const ToolRun run = table(fixture("ncu_export.csv") + " --roof 4000 --roof gather=7000");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out,
            "pass      stage           kernels  time us  DRAM GB/s  L2 hit %  occupancy %  roof %\n"
            "forward   gather                2     40.0       3500      35.0         65.0      50\n"
            "backward  undo                  1     20.0       3000       0.0         25.0      75\n"
            "          flush(float *)        1      0.0          0       0.0          0.0       0\n");
}

TEST_F(NcuTable, MarkdownWithoutRoof) {
  const ToolRun run = table("--md - < " + fixture("ncu_export.csv"));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out.substr(0, run.out.find("\n| forward")),
            "| pass | stage | kernels | time us | DRAM GB/s | L2 hit % | occupancy % |\n|:--|:--|--:|--:|--:|--:|--:|");
}

TEST_F(NcuTable, SaysWhatIsWrong) {
  const auto refused = [&](const std::string& arguments, const std::string& part) {
    const ToolRun run = table(arguments);
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_NE(run.err.find(part), std::string::npos) << run.err;
  };
  const std::string header = "\"ID\",\"Kernel Name\"\n\"\",\"\"\n";
  refused(folder_.write("none.csv", "no kernels were profiled\n"), "export with --csv --page raw");
  refused(folder_.write("few.csv", header), "the export lacks gpu__time_duration.sum");
  refused(folder_.file("absent.csv"), "No such file");
  refused(fixture("ncu_export.csv") + " --roof fast", "--roof fast: expected GB/s");
  std::string text = text_of(fixture("ncu_export.csv"));
  refused(folder_.write("unit.csv", text.replace(text.find("\"ns\""), 4, "\"ps\"")), "is in 'ps'");
  std::string blank = text_of(fixture("ncu_export.csv"));
  refused(folder_.write("blank.csv", blank.replace(blank.find("\"10,000\""), 8, "\"\"")), "kernel 0 has no number");
}

TEST(ProfileScripts, AreValidAndExplainThemselves) {
  const ScratchFolder folder;
  for (const char* name : {"profile_nsys.sh", "profile_ncu.sh", "sanitize.sh"}) {
    EXPECT_EQ(folder.shell("bash -n " + script(name)).exit_code, 0) << name;
    const ToolRun help = folder.shell(script(name) + " --help");
    EXPECT_EQ(help.exit_code, 0) << name;
    EXPECT_NE(help.out.find(std::string("scripts/") + name), std::string::npos) << help.out;
    const ToolRun absent = folder.shell("NSYS=/none NCU=/none SANITIZER=/none " + script(name) + " x.json");
    EXPECT_EQ(absent.exit_code, 2);
    EXPECT_NE(absent.err.find("is not installed"), std::string::npos) << absent.err;
  }
}

/// The commands that would run, seen by stand-ins that print their arguments.
TEST(ProfileScripts, PassFiltersOn) {
  const ScratchFolder folder;
  const std::string stand_in = folder.write("stand_in", "#!/bin/sh\necho \"$0 $@\" >> " + folder.file("log") +
                                                            "\n[ \"$1\" = list ] && printf 'a\\nb\\n'\nexit 0\n");
  folder.shell("chmod +x " + stand_in);
  folder.shell("cd " + folder.file("") + " && SDM_BENCH=" + stand_in + " NSYS=" + stand_in + " " +
               script("profile_nsys.sh") + " c.json 'a|b' t");
  EXPECT_NE(text_of(folder.file("log")).find("--capture-range-end=repeat:2"), std::string::npos)
      << text_of(folder.file("log"));
  folder.shell("cd " + folder.file("") + " && SDM_BENCH=" + stand_in + " NCU=" + stand_in + " " +
               script("profile_ncu.sh") + " c.json a gather t");
  EXPECT_NE(text_of(folder.file("log")).find("--nvtx-include sdm-bench@gather/] --profile-from-start off"),
            std::string::npos)
      << text_of(folder.file("log"));
}

}  // namespace
}  // namespace sdm::test
