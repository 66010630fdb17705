#pragma once

namespace sdm {

/// SIGINT and SIGTERM set a flag that long work polls; a second signal ends the process at once. A file beyond
/// the limit on file sizes is left to write(), which then fails. The one piece of
/// process-wide state: a signal handler can reach nothing else.
void install_interrupt_handlers();
/// The signal that arrived, 0 for none.
int interrupted();

}  // namespace sdm
