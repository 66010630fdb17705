#pragma once
#include <functional>
#include <string>

#include "run/sparse_session.h"

namespace sdm::check {

/// Runs two training steps of one session, each from restored state, and compares the digests of every stage's results
/// after every call. `as_first` and `as_second` set the session up (launch geometry, poison, ..) and may do nothing.
/// Returns the first call that differs, "write of step 3 in bank"; empty where none does. `stage` of the call is
/// written to `first_stage`.
std::string first_differing_call(SparseSession& session, const std::function<void()>& as_first,
                                 const std::function<void()>& as_second, std::string* first_stage = nullptr);

}  // namespace sdm::check
