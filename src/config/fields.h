#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/located_json.h"

namespace sdm::config {

enum class WorkloadKind : std::uint8_t { sparse, dense };
enum class GradientChoice : std::uint8_t { bank, f32, bf16 };

/// A case being put together: everything a field can set, defaults in place.
struct Draft {
  WorkloadKind kind = WorkloadKind::sparse;
  SparseWorkload sparse;
  DenseWorkload dense;
  std::int64_t batch = 1, heads = 1;  ///< sparse, instead of streams
  GradientChoice gradient = GradientChoice::bank;
  std::map<std::string, std::string> variants = {{"*", "auto"}};
  LaunchMode launch = LaunchMode::automatic;
  TimingSpec timing;
};

enum class ValueType : std::uint8_t { boolean, integer, real, text, choice };

/// Where a field may stand: in every config, or in workloads of one kind.
enum class Scope : std::uint8_t { common, sparse, dense };

/// A legal word of a choice, and other spellings that are read as it.
struct Word {
  std::string name;
  std::vector<std::string> aliases;
};

/// One scalar key of a config. The table of these drives reading, defaults, --set, sweeps, the printed effective
/// config, the published schema and the check of configs/README.md.
struct Field {
  std::string path;  ///< for example workload.distribution.s
  ValueType type = ValueType::text;
  Scope scope = Scope::common;
  std::string distribution;  ///< not empty: only beside this workload.distribution.kind
  std::int64_t min = 0;      ///< integer
  std::uint64_t max = 0;     ///< integer
  std::uint64_t multiple_of = 1;
  double real_min = 0, real_max = 0;
  bool above_min = false;  ///< real: min itself is illegal
  std::vector<Word> words;
  std::string help;                                ///< one line
  std::function<void(Draft&, const Scalar&)> set;  ///< takes what check_value returned
  std::function<Scalar(const Draft&)> get;
};

/// All fields, in the order in which they are printed. A path stands twice when both workload kinds have it.
const std::vector<Field>& fields();

/// The fields of that path: none, one, or one for each workload kind.
std::vector<const Field*> fields_at(std::string_view path);

/// Whether "workload", "workload.distribution", "variants", "timing": objects that hold fields.
bool is_section(std::string_view path);

/// The keys directly inside a section ("" is the top of a field path), for messages and did-you-mean.
std::vector<std::string> keys_in(std::string_view section, std::optional<WorkloadKind> kind);

/// Whether a workload of that kind has the field, whatever its distribution.
bool applies(const Field& field, WorkloadKind kind);
/// Whether a case of that kind and that workload.distribution.kind has the field.
bool applies(const Field& field, WorkloadKind kind, std::string_view distribution);

/// The canonical form of a legal value (whole floats of an integer field become integers, aliases their word), else
/// nothing.
std::optional<Scalar> check_value(const Field& field, const Scalar& value);

/// "an integer from 2 to 256", "one of bf16, f32", ...: for messages and configs/README.md.
std::string legal_text(const Field& field);

/// The default as plain text.
std::string default_text(const Field& field);

/// The stages a variant can be named for (spec 3.1 and 4), and "*" for all the others.
const std::vector<std::string>& variant_keys();

}  // namespace sdm::config
