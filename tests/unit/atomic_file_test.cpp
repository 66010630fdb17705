#include "io/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"

namespace sdm {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("sdm_atomic_{}_{}", ::getpid(),
                                                      testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  template <typename Action>
  static std::string refusal(Action&& action) {
    try {
      action();
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  }

  fs::path folder_;
};

TEST_F(AtomicFileTest, AppearsWholeOrNotAtAll) {
  {
    AtomicFile file(path("a"), false);
    file.write("half a ");
    EXPECT_FALSE(fs::exists(path("a")));
  }
  EXPECT_EQ(files(), 0u);
  {
    AtomicFile file(path("a"), false);
    file.write("whole ");
    file.write("file");
    file.commit();
    EXPECT_EQ(read_file(path("a")), "whole file");
  }
  EXPECT_EQ(files(), 1u);
  struct stat info {};
  ASSERT_EQ(::stat(path("a").c_str(), &info), 0);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask);
}

TEST_F(AtomicFileTest, OverwritesOnlyWhenForced) {
  write_file(path("a"), "old", false);
  EXPECT_NE(refusal([&] { write_file(path("a"), "new", false); }).find("exists already"), std::string::npos);
  EXPECT_NE(refusal([&] { check_writable(path("a"), false); }).find("pass --force"), std::string::npos);
  EXPECT_EQ(read_file(path("a")), "old");
  EXPECT_EQ(refusal([&] { check_writable(path("a"), true); }), "accepted");
  EXPECT_EQ(read_file(path("a")), "old");
  write_file(path("a"), "new", true);
  EXPECT_EQ(read_file(path("a")), "new");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFileTest, AFileThatAppearsMeanwhileIsKept) {
  AtomicFile file(path("a"), false);
  file.write("mine");
  write_file(path("a"), "theirs", false);
  EXPECT_NE(refusal([&] { file.commit(); }).find("came into being"), std::string::npos);
  EXPECT_EQ(read_file(path("a")), "theirs");
}

TEST_F(AtomicFileTest, TestsThePathBeforehand) {
  EXPECT_EQ(refusal([&] { check_writable(path("new"), false); }), "accepted");
  EXPECT_EQ(files(), 0u);
  EXPECT_NE(refusal([&] { check_writable(path("no/such/x"), false); }).find("does not exist"), std::string::npos);
  EXPECT_NE(refusal([&] { check_writable(folder_.string(), true); }).find("is a folder"), std::string::npos);
  EXPECT_NE(refusal([&] { check_writable("", false); }).find("empty"), std::string::npos);
  write_file(path("file"), "", false);
  EXPECT_NE(refusal([&] { check_writable(path("file/x"), false); }).find("is not a folder"), std::string::npos);
  // Takes no new files from anyone, root included.
  EXPECT_NE(refusal([&] { check_writable("/proc/x.json", false); }).find("cannot write /proc/x.json"),
            std::string::npos);
  EXPECT_NE(refusal([&] { write_file("/proc/x.json", "", false); }).find("cannot write /proc/x.json"),
            std::string::npos);
  EXPECT_EQ(refusal([&] { check_writable("-", false); }), "accepted");
}

TEST_F(AtomicFileTest, FollowsLinksAndWritesDevicesDirectly) {
  write_file(path("real"), "old", false);
  fs::create_symlink("real", path("link"));
  write_file(path("link"), "new", true);
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("real")), "new");
  fs::create_symlink("later", path("early"));  // what it leads to is not there yet
  EXPECT_EQ(refusal([&] { check_writable(path("early"), false); }), "accepted");
  write_file(path("early"), "made", false);
  EXPECT_TRUE(fs::is_symlink(path("early")));
  EXPECT_EQ(read_file(path("later")), "made");
  fs::create_symlink("round", path("round"));
  EXPECT_NE(refusal([&] { check_writable(path("round"), true); }).find("leads nowhere"), std::string::npos);
  EXPECT_EQ(refusal([] { write_file("/dev/null", "x", false); }), "accepted");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(AtomicFileTest, ReportsAFullDisk) {
  const std::string sentence = refusal([] { write_file("/dev/full", "x", false); });
  EXPECT_EQ(sentence, "cannot write /dev/full: No space left on device");
}

TEST_F(AtomicFileTest, ReadingNamesTheReason) {
  EXPECT_NE(refusal([&] { read_file(path("none")); }).find("No such file"), std::string::npos);
  EXPECT_NE(refusal([&] { read_file(folder_.string()); }).find("directory"), std::string::npos);
}

}  // namespace
}  // namespace sdm
