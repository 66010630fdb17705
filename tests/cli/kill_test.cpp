// SIGINT, SIGTERM and SIGKILL at random moments of a run, in one process and isolated: no finished case is lost, no
// file is torn, and the exit code tells. SDM_KILL_RUNS sets how many runs (scripts/kill_loop.sh takes 200),
// SDM_KILL_SEED repeats a draw.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "process.h"

namespace sdm::test {
namespace {

using Json = nlohmann::json;
using Digests = std::map<std::string, std::string>;

constexpr int kCases = 12;

std::string kill_config(const TempFolder& folder) {
  return folder.file("kill.json", R"({"schema": 1, "name": "kill",
    "workload": {"kind": "sparse", "streams": 1, "tokens": 32, "chunk": 16, "writes": 4, "reads": 4, "head_dim": 16, "slots": 64},
    "sweep": {"workload.seed": [1,2,3,4,5,6,7,8,9,10,11,12]}, "checks": ["guards", {"repeat": {"runs": 3}}]})");
}

int number_from(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

Digests digests_of(const Json& report) {
  Digests digests;
  for (const Json& c : report.at("cases"))
    if (c.at("status") == "ok") digests[c.at("id")] = c.at("digests").dump();
  return digests;
}

/// Ids that the progress called finished: "[3/12] kill/seed=3  ok  (12 ms)".
std::vector<std::string> announced(const std::string& err) {
  std::vector<std::string> ids;
  for (std::size_t at = 0; (at = err.find("] kill/seed=", at)) != std::string::npos; ++at) {
    const std::size_t begin = at + 2, end = err.find("  ", begin);
    if (end != std::string::npos && err.compare(end, 5, "  ok ") == 0) ids.push_back(err.substr(begin, end - begin));
  }
  return ids;
}

/// Processes that carry `mark` in their environment.
int processes_with(const std::string& mark) {
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored))
    if (slurp(entry.path() / "environ").find(mark) != std::string::npos) ++count;
  return count;
}

class KillLoop : public testing::Test {
 protected:
  struct Shot {
    int signal_number;
    bool isolate;
    double delay;
  };

  /// A whole run: what every case's digests must be, and how long it takes.
  double reference(bool isolate) {
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome = Process(arguments(folder_ / "reference.json", isolate)).wait();
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    digests_ = digests_of(Json::parse(slurp(folder_ / "reference.json")));
    EXPECT_EQ(digests_.size(), static_cast<std::size_t>(kCases));
    fs::remove(folder_ / "reference.json");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void shoot(const Shot& shot) {
    const fs::path result = folder_ / "result.json", journal = folder_ / "result.json.journal";
    const std::string mark = "SDM_KILL_MARK=" + folder_.path().filename().string();
    Process process(arguments(result, shot.isolate), {mark});
    std::this_thread::sleep_for(std::chrono::duration<double>(shot.delay));
    process.signal(shot.signal_number);
    const Outcome outcome = process.wait();
    const bool finished = outcome.code == 0;
    EXPECT_TRUE(finished || outcome.code == 128 + shot.signal_number) << outcome.code << "\n" << outcome.err;
    const std::vector<std::string> done = announced(outcome.err);
    if (fs::exists(result)) {
      expect_saved(Json::parse(slurp(result)), done, finished, shot.signal_number);
      if (shot.signal_number != SIGKILL) {
        EXPECT_FALSE(fs::exists(journal)) << "the journal outlived its result";
      }
    } else {
      EXPECT_FALSE(finished) << "no result";
      expect_journal(journal, done);
    }
    EXPECT_TRUE(wait_until([&] { return processes_with(mark) == 0; }, 10)) << "a process was left behind";
    for (const fs::path& path : {result, journal}) fs::remove(path);
  }

  std::vector<std::string> arguments(const fs::path& result, bool isolate) const {
    std::vector<std::string> words = {"run", config_, "--device", "cpu", "--threads", "1", "-o", result.string()};
    if (isolate) words.emplace_back("--isolate");
    return words;
  }

  TempFolder folder_;
  std::string config_ = kill_config(folder_);
  Digests digests_;

 private:
  void expect_cases(const Digests& saved, const std::vector<std::string>& done) {
    for (const auto& [id, digests] : saved) EXPECT_EQ(digests, digests_[id]) << id << " was saved with other bits";
    for (const std::string& id : done) EXPECT_TRUE(saved.contains(id)) << id << " finished and is lost";
  }

  void expect_saved(const Json& report, const std::vector<std::string>& done, bool finished, int signal_number) {
    EXPECT_EQ(report.at("cases").size(), static_cast<std::size_t>(kCases));
    if (signal_number != SIGKILL || finished) {
      EXPECT_EQ(report.at("run").at("status"), finished ? "finished" : "interrupted");
    }
    expect_cases(digests_of(report), done);
  }

  /// Before the first line there is nothing to lose; after it `report` reads what was finished.
  void expect_journal(const fs::path& journal, const std::vector<std::string>& done) {
    if (!fs::exists(journal) || slurp(journal).find('\n') == std::string::npos) {
      EXPECT_TRUE(done.empty()) << done.size() << " finished cases are lost";
      return;
    }
    const Outcome report = bench({"report", journal.string(), "--format", "json"});
    ASSERT_EQ(report.code, 0) << report.err;
    expect_cases(digests_of(Json::parse(report.out)), done);
  }
};

TEST_F(KillLoop, NoFinishedCaseIsLostAtAnyMoment) {
  const int runs = number_from("SDM_KILL_RUNS", 10);
  const int seed = number_from("SDM_KILL_SEED", static_cast<int>(std::random_device{}() & 0xffff));
  std::printf("seed %d (SDM_KILL_SEED), %d runs\n", seed, runs);
  std::mt19937 engine(static_cast<unsigned>(seed));
  const double seconds[] = {reference(false), reference(true)};
  for (int i = 0; i < runs && !HasFailure(); ++i) {
    Shot shot;
    shot.signal_number = std::array{SIGINT, SIGTERM, SIGKILL}[engine() % 3];
    shot.isolate = engine() % 2 == 1;
    shot.delay = seconds[shot.isolate] * 1.05 * static_cast<double>(engine() % 10000) / 10000;
    SCOPED_TRACE(testing::Message() << "run " << i << ": signal " << shot.signal_number << " after " << shot.delay
                                    << " s" << (shot.isolate ? ", isolated" : ""));
    shoot(shot);
  }
}

}  // namespace
}  // namespace sdm::test
