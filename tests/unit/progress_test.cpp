#include "report/progress.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "base/text.h"

namespace sdm {
namespace {

/// Runs a small job at a clock of one second per look and gives what was written.
template <typename Job>
std::string written(ProgressStyle style, Job&& job) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = ::open_memstream(&text, &size);
  {
    double now = 0;
    Progress progress(3, style, out, [&] { return now += 1; });
    job(progress);
  }
  std::fclose(out);
  const std::string result(text, size);
  std::free(text);
  return result;
}

void small_job(Progress& progress) {
  progress.start_case("a/very/long/name/of/a/case/with/chunk=32/writes=16/日本");
  progress.phase("time forward");
  progress.finish_case(CaseStatus::ok);
  progress.start_case("b");
  progress.finish_case(CaseStatus::failed, "replay differs");
}

TEST(Progress, PlainLinesElsewhere) {
  const std::string text = written({}, small_job);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_NE(text.find("[1/3] a/very/long/name"), std::string::npos);
  EXPECT_NE(text.find("[2/3] b  failed: replay differs  (1.000 s)\n"), std::string::npos) << text;
}

TEST(Progress, BarStaysInsideTheTerminalAndIsTakenAway) {
  for (const std::size_t width : {1u, 10u, 40u, 60u, 80u, 200u}) {
    const std::string text = written({.bar = true, .width = width}, small_job);
    EXPECT_TRUE(text.ends_with("\r\x1b[2K"));
    // Every drawing begins with the erase sequence and ends at the next one; failures are lines of their own.
    for (std::size_t at = 0; (at = text.find("\r\x1b[2K", at)) != std::string::npos;) {
      at += 5;
      const std::string drawn = text.substr(at, text.find("\r\x1b[2K", at) - at);
      if (drawn.find('\n') != std::string::npos) continue;
      EXPECT_LT(display_width(drawn), std::max<std::size_t>(width, 1)) << drawn;
    }
  }
  const std::string text = written({.bar = true, .width = 120}, small_job);
  EXPECT_NE(text.find("1/3 · about "), std::string::npos);
  EXPECT_NE(text.find("1 failed"), std::string::npos);
  EXPECT_NE(text.find("[2/3] b  failed: replay differs"), std::string::npos);
  EXPECT_EQ(text.find("[1/3]"), std::string::npos);
}

TEST(Progress, QuietWarnsOnly) {
  for (const bool bar : {false, true}) {
    const std::string text = written({.bar = bar, .quiet = true}, [](Progress& progress) {
      small_job(progress);
      progress.note("nothing to see");
      progress.warn("clock\x1b[2J is low");
    });
    EXPECT_EQ(text, "warning: clock [2J is low\n");
  }
}

TEST(Terminal, ColourRules) {
  EXPECT_EQ(color_mode("always"), ColorMode::always);
  EXPECT_THROW(color_mode("sometimes"), UserError);
  std::FILE* file = std::tmpfile();
  EXPECT_TRUE(color_wanted(ColorMode::always, ::fileno(file)));
  EXPECT_FALSE(color_wanted(ColorMode::never, ::fileno(file)));
  EXPECT_FALSE(color_wanted(ColorMode::automatic, ::fileno(file)));
  EXPECT_FALSE(is_terminal(::fileno(file)));
  EXPECT_EQ(terminal_width(::fileno(file)), 80u);
  std::fclose(file);
}

// A pseudo terminal stands in for a real one.
TEST(Terminal, NoColorIsRespectedOnATerminal) {
  const int controller = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(controller, 0);
  ASSERT_EQ(::grantpt(controller), 0);
  ASSERT_EQ(::unlockpt(controller), 0);
  const int terminal = ::open(::ptsname(controller), O_RDWR | O_NOCTTY);
  if (terminal < 0) GTEST_SKIP() << "no pseudo terminals here";
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "xterm", 1);
  EXPECT_TRUE(color_wanted(ColorMode::automatic, terminal));
  ::setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(color_wanted(ColorMode::automatic, terminal));
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(color_wanted(ColorMode::automatic, terminal));
  EXPECT_TRUE(color_wanted(ColorMode::always, terminal));
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(color_wanted(ColorMode::automatic, terminal));
  ::close(terminal);
  ::close(controller);
}

}  // namespace
}  // namespace sdm
