#include "base/interrupt.h"

#include <csignal>

namespace sdm {
namespace {

volatile std::sig_atomic_t received = 0;

extern "C" void on_signal(int signal_number) {
  received = signal_number;
  std::signal(signal_number, SIG_DFL);  // the second one kills
}

}  // namespace

void install_interrupt_handlers() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grew too large is an error of write(), not the end
}

int interrupted() { return received; }

}  // namespace sdm
