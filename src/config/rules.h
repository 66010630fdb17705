#pragma once
#include "config/fields.h"
#include "config/settings.h"

namespace sdm::config {

/// Fills in what follows from other fields: streams from batch and heads, the gradient's dtype from the bank's.
/// Then reports every combination of values that no case can have (spec 2.2, 2.5), with the paths and both values.
/// `settings` say where the values came from; `fallback` stands in for defaults.
void resolve(Draft& draft, const Layer& settings, const Origin& fallback, Problems& problems);

}  // namespace sdm::config
