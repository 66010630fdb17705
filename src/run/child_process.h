#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace sdm {

/// What a child process is given. Its stdout and stderr go to files in memory, so that neither side ever waits for the
/// other to read.
struct ChildTask {
  std::vector<std::string> arguments;  ///< after the program's name; the program is this very executable
  std::string input;                   ///< its stdin
  double limit_seconds = 0;            ///< killed after that long; 0: never
  std::function<int()> interrupt;      ///< a signal to be passed on, 0 for none; asked again and again
};

struct ChildOutcome {
  std::string out, err;
  int exit_code = -1;        ///< -1: a signal ended it
  int signal_number = 0;     ///< that ended it, 0 for none
  bool over_limit = false;   ///< killed here: the limit was over
  bool interrupted = false;  ///< a signal was passed on
};

/// "ended with exit code 2: <the last line on stderr that says something>", or by which signal.
std::string how_it_ended(const ChildOutcome& outcome);

/// Starts this executable again, waits, and collects what it wrote. The child leads a process group of its own, so that
/// Ctrl-C on a terminal reaches it through here and once only; it dies with this process. After an interrupt it has
/// five seconds to end by itself. Throws UserError where no process can be started.
ChildOutcome run_child(const ChildTask& task);

}  // namespace sdm
