#include "io/journal.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/error.h"
#include "io/atomic_file.h"

namespace sdm {
namespace {

namespace fs = std::filesystem;

class JournalTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("sdm_journal_{}_{}", ::getpid(),
                                                      testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
    output_ = (folder_ / "result.json").string();
    journal_ = Journal::path_for(output_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
  std::string output_, journal_;
};

TEST_F(JournalTest, KeepsLinesUntilRemoved) {
  Journal journal(output_, false);
  journal.append(R"({"id":"a"})");
  EXPECT_EQ(read_file(journal_), "{\"id\":\"a\"}\n");
  journal.append(R"({"id":"b"})");
  const RecoveredJournal recovered = recover_journal(journal_);
  EXPECT_EQ(recovered.lines, (std::vector<std::string>{R"({"id":"a"})", R"({"id":"b"})"}));
  EXPECT_FALSE(recovered.torn);
  EXPECT_THROW(journal.append("a\nb"), InternalError);
  journal.remove();
  journal.remove();
  EXPECT_FALSE(fs::exists(journal_));
}

TEST_F(JournalTest, ALeftoverIsNotLostByAccident) {
  { Journal(output_, false).append("precious"); }
  try {
    Journal again(output_, false);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("interrupted run"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find(journal_), std::string::npos);
  }
  EXPECT_EQ(recover_journal(journal_).lines.front(), "precious");
  Journal forced(output_, true);
  EXPECT_EQ(read_file(journal_), "");
}

TEST_F(JournalTest, DropsATornLastLine) {
  write_file(journal_, "one\n\ntwo\nthr", false);
  const RecoveredJournal recovered = recover_journal(journal_);
  EXPECT_EQ(recovered.lines, (std::vector<std::string>{"one", "two"}));
  EXPECT_TRUE(recovered.torn);
  EXPECT_THROW(recover_journal(journal_ + "x"), UserError);
}

TEST_F(JournalTest, StdoutAndDevicesHaveNone) {
  Journal("-", false).append("x");
  Journal("/dev/null", false).append("x");
  EXPECT_FALSE(fs::exists("-.journal"));
  EXPECT_FALSE(fs::exists("/dev/null.journal"));
}

TEST_F(JournalTest, SurvivesAKilledProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    Journal journal(output_, false);
    for (int i = 0; i < 5; ++i) journal.append(fmt::format("case {}", i));
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(recover_journal(journal_).lines.size(), 5u);
}

}  // namespace
}  // namespace sdm
