#include "cli/options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "run/tool_info.h"

namespace sdm {
namespace {

/// A finite number from 0, or above it. CLI11's own ranges let NaN through, which no limit would ever hold against.
CLI::Validator number(bool above_zero) {
  const auto check = [above_zero](const std::string& text) -> std::string {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = error == std::errc{} && end == text.data() + text.size() && std::isfinite(value);
    if (is_number && value >= 0 && !(above_zero && value == 0)) return "";
    return fmt::format("'{}' is not legal; legal: a number {} 0", text, above_zero ? "above" : "from");
  };
  return {check, ""};
}

/// CLI11 takes -1 for the largest unsigned integer.
CLI::Validator unsigned_integer() {
  const auto check = [](const std::string& text) -> std::string {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc{} && end == text.data() + text.size()) return "";
    return fmt::format("'{}' is not legal; legal: an integer from 0 to {}", text, UINT64_MAX);
  };
  return {check, ""};
}

void add_common(CLI::App& app, CommonOptions& o, const std::string& formats) {
  app.add_option("-o,--output", o.output, "File to write, - for stdout")->capture_default_str();
  if (!formats.empty()) app.add_option("--format", o.format, "Format of the document: " + formats);
  app.add_flag("--force", o.force, "Overwrite an existing output file");
  app.add_flag("-q,--quiet", o.quiet, "No progress, only warnings");
  app.add_flag("-v,--verbose", o.verbose, "Say more on stderr");
  app.add_option("--color", o.color, "auto, always or never")->capture_default_str();
}

void add_cases(CLI::App& app, CaseOptions& o, bool required) {
  CLI::Option* configs = app.add_option("CONFIG", o.configs, "Config files");
  if (required) configs->required();
  app.add_option("--set", o.set, "Override a setting of every case: path=value, a list sweeps (repeatable)")
      ->expected(1)
      ->take_all();
  app.add_option("--filter", o.filter, "Only cases whose id matches this regular expression");
  app.add_option("--seed", o.seed, "The workloads' seed")->check(unsigned_integer());
  app.add_flag("--shuffle", o.shuffle, "Run the cases in a random order (drawn from the seed)");
}

void add_device(CLI::App& app, std::string& device) {
  app.add_option("--device", device, "auto, cpu, cuda, cuda:N or a GPU's uuid")->capture_default_str();
}

constexpr const char* kReportFormats = "table, json, md, csv, jsonl, junit, gbench, bmf, html";

/// The verbs with their options; parse, then call the one that was named.
struct CommandLine {
  CLI::App app{"sdm-bench: runs, proves and times sparse-memory kernels", "sdm-bench"};
  RunOptions run;
  ConformOptions conform_options;
  CheckOptions check;
  ListOptions list;
  ReportOptions report;
  CompareOptions compare;
  GenOptions gen;
  EnvOptions env;
  RoofOptions roof;
  NumericsOptions numerics;

  CommandLine() {
    app.require_subcommand(1);
    app.set_version_flag("--version", "sdm-bench " + tool_info().version);
    add_run();
    add_conform();
    add_queries();
    add_compare();
    add_gen();
    add_roof();
    add_numerics();
  }

  void add_run() {
    CLI::App& verb = *app.add_subcommand("run", "Generate, run, check, time and report the cases of configs");
    add_cases(verb, run.cases, true);
    add_common(verb, run.common, kReportFormats);
    add_device(verb, run.device);
    verb.add_option("--threads", run.threads, "Host threads; 0 takes one per core")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    verb.add_option("--geometry", run.geometry,
                    "Launch geometry for every variant that honours it: tile=N,warps=N,depth=N (bits never change)");
    verb.add_flag("--no-timing", run.no_timing, "Check only");
    verb.add_flag("--no-checks", run.no_checks, "Time only");
    verb.add_flag("--quick", run.quick, "Few samples and repeats: a look, not a measurement");
    verb.add_flag("--profile", run.profile, "Exactly the launches of one step in NVTX ranges, for nsys and ncu");
    verb.add_flag("--portable", run.portable, "Refuse architecture-specific variants");
    verb.add_option("--ab", run.ab,
                    "Interleaved A/B in one process, for example variants.write=ring; given twice: A and B")
        ->expected(1)
        ->take_all();
    verb.add_flag("--calibrate", run.calibrate, "Also store the spread between two interleaved runs of each case");
    verb.add_flag("--isolate", run.isolate,
                  "Every case in a process of its own: a crash or a hang costs that case alone");
    verb.add_option("--max-determinism-cost", run.max_determinism_cost,
                    "Fail cases whose ordered variants take more than that many times their atomic baselines' time")
        ->check(number(true));
    CLI::Option* plant =
        verb.add_option("--plant", run.plant, "Spoil sparse cases with a fault of docs/planted_faults.md");
    plant->group("");
    verb.add_option("--plant-in", run.plant_in, "Spoil only cases whose id matches")->needs(plant)->group("");
    verb.add_flag("--dry-run", run.dry_run, "Only say what would run");
  }

  void add_conform() {
    CLI::App& verb = *app.add_subcommand("conform", "Run every stage on stored tensor cases and compare bits");
    verb.add_option("PATH", conform_options.paths, "Folders or *.safetensors files")->required();
    add_common(verb, conform_options.common, "");
    add_device(verb, conform_options.device);
    verb.add_flag("--portable", conform_options.portable, "Refuse architecture-specific variants");
  }

  void add_queries() {
    CLI::App& check_verb =
        *app.add_subcommand("check", "Validate configs without running: problems, cases, memory, time bound");
    add_cases(check_verb, check.cases, true);
    add_common(check_verb, check.common, "");
    CLI::App& list_verb = *app.add_subcommand("list", "Stages, variants and devices, or a config's cases");
    add_cases(list_verb, list.cases, false);
    add_common(list_verb, list.common, "");
    list_verb.add_flag("--json", list.json, "As JSON");
    CLI::App& report_verb = *app.add_subcommand("report", "A result file in another form");
    report_verb.add_option("RESULT", report.file, "A result file or a journal")->required();
    add_common(report_verb, report.common, kReportFormats);
    CLI::App& env_verb = *app.add_subcommand("env", "Everything recorded about machine, GPU, driver and build");
    add_common(env_verb, env.common, "");
    env_verb.add_flag("--json", env.json, "As JSON");
  }

  void add_compare() {
    CLI::App& verb = *app.add_subcommand("compare", "Two sets of result files: times, digests, and a gate");
    verb.footer(
        "sdm-bench compare [OPTIONS] BASE... -- NEW...\nWith just two files the -- may be left out.\nExit codes: 0 "
        "same or better, 1 digests differ or a case failed, 3 regression, 4 not comparable or inconclusive.");
    verb.add_option("BASE", compare.base, "Result files of the base, then -- and those of the new side");
    verb.add_option("--new", compare.now, "Result files of the new side (what -- stands for)");
    add_common(verb, compare.common, "table, md, json, junit");
    verb.add_option("--thresholds", compare.thresholds, "A JSON file with limits by metric and stage");
    verb.add_option("--relative", compare.relative, "Relative limit of a median time, 0.05 by default")
        ->check(number(false));
    verb.add_option("--absolute-us", compare.absolute_us, "Absolute limit of a median time, 0.5 by default")
        ->check(number(false));
    verb.add_flag("--digests", compare.digests, "Digests alone; works across machines");
    verb.add_flag("--cross-device", compare.cross_device, "Compare times of different devices");
    verb.add_flag("--require-all", compare.require_all,
                  "Gate: what is missing, not comparable or ambiguous does not pass");
  }

  void add_gen() {
    CLI::App& verb = *app.add_subcommand("gen", "Write cases' inputs, and results, as safetensors files");
    add_cases(verb, gen.cases, true);
    add_common(verb, gen.common, "");
    verb.add_option("--out", gen.out, "Folder of the files")->required();
    verb.add_flag("--outputs", gen.outputs, "Also everything that a training step of the host replay makes");
  }

  void add_roof() {
    CLI::App& verb = *app.add_subcommand("roof", "Measure copy, random row read and random row read+write");
    add_common(verb, roof.common, "");
    add_device(verb, roof.device);
    verb.add_option("--row-bytes", roof.row_bytes, "Row sizes")->check(CLI::Range(1, 1 << 22))->capture_default_str();
    verb.add_option("--seconds", roof.seconds, "Time for each measurement")->check(number(true))->capture_default_str();
    verb.add_flag("--json", roof.json, "As JSON");
  }

  void add_numerics() {
    CLI::App& verb = *app.add_subcommand("numerics", "Every float through every shared function, on host and GPU");
    verb.group("");
    add_common(verb, numerics.common, "");
    add_device(verb, numerics.device);
    verb.add_option("--threads", numerics.threads, "Host threads; 0 takes one per core")->check(CLI::Range(0, 1024));
    verb.add_option("--blocks", numerics.blocks, "Blocks of 2^20 inputs; 4096 are all of them")
        ->check(CLI::Range(1, 4096))
        ->capture_default_str();
    verb.add_option("--plant", numerics.fault, "Spoil the GPU's result for this input");
  }

  ExitCode call(const std::vector<std::string>& argv) {
    const std::string verb = app.get_subcommands().front()->get_name();
    if (verb == "run") return run_cases(run, argv);
    if (verb == "conform") return conform(conform_options);
    if (verb == "check") return check_configs(check);
    if (verb == "list") return list_things(list);
    if (verb == "report") return report_result(report);
    if (verb == "compare") return compare_results(compare);
    if (verb == "gen") return generate_files(gen);
    if (verb == "numerics") return sweep_numerics(numerics);
    if (verb == "env") return show_environment(env);
    return measure_roofs(roof);
  }

  std::vector<std::string> verbs() {
    std::vector<std::string> names;
    for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
    return names;
  }
};

/// The words after the program's name. `compare BASE... -- NEW...` is written as its --new, because the parser takes a
/// plain -- as nothing but the end of options.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words[0] != "compare") return words;
  const auto dashes = std::find(words.begin(), words.end(), "--");
  if (dashes != words.end()) *dashes = "--new";
  return words;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CommandLine line;
  const std::vector<std::string> verbs = line.verbs();
  if (argc > 1 && argv[1][0] != '-' && std::find(verbs.begin(), verbs.end(), argv[1]) == verbs.end())
    throw UserError(
        fmt::format("unknown verb '{}'; verbs are {}{}", argv[1], join(verbs), did_you_mean(argv[1], verbs)));
  try {
    std::vector<std::string> words = words_of(argc, argv);
    std::reverse(words.begin(), words.end());  // the parser takes them from the back
    line.app.parse(words);
  } catch (const CLI::Success& success) {  // --help and --version
    return line.app.exit(success);
  } catch (const CLI::ParseError& error) {
    throw UserError(fmt::format("{} (see sdm-bench --help)", error.what()));
  }
  return static_cast<int>(line.call({argv, argv + argc}));
}

}  // namespace sdm
