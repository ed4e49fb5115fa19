#include "tests/parity/twin.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/files.h"
#include "harness/scenario/scenario.h"
#include "harness/trace/reader.h"

#include "tests/parity/python_twins.h"
#include "tests/support/part.h"
#include "tests/support/support.h"

namespace lockstep::test {
namespace {

/// Records of one rank and step that both sides name: (channel, name) → "dtype shape digest".
using Records = std::map<std::pair<std::string, std::string>, std::string>;

std::string identity(const std::string& dtype, const std::vector<std::int64_t>& shape, const std::string& digest) {
  return dtype + Json(shape).dump() + " " + digest;
}

std::map<std::int64_t, Records> python_records(const std::filesystem::path& file) {
  std::map<std::int64_t, Records> steps;
  std::istringstream lines(read_file(file));
  for (std::string line; std::getline(lines, line);) {
    const Json object = Json::parse(line);
    Records& records = steps[object.at("step").get<std::int64_t>()];
    for (const Json& record : object.at("records")) {
      records[{record[0], record[1]}] = identity(record[2], record[3].get<std::vector<std::int64_t>>(), record[4]);
    }
  }
  return steps;
}

/// Names that differ in words only: the twin writes "lr" where our ledger says "learning_rate".
std::string twin_name(const trace::Record& record) {
  constexpr std::string_view kRate = "learning_rate";
  const bool is_rate = record.channel == trace::Channel::kLedger && record.name.starts_with(kRate);
  return is_rate ? "lr" + record.name.substr(kRate.size()) : record.name;
}

std::map<std::int64_t, Records> worker_records(const std::filesystem::path& file) {
  const trace::Trace trace = trace::read_trace(file);
  EXPECT_TRUE(trace.complete) << file;
  std::map<std::int64_t, Records> steps;
  for (const trace::Step& step : trace.steps) {
    for (const trace::Record& record : step.records) {
      steps[step.step][{std::string(name_of(record.channel)), twin_name(record)}] =
          identity(std::string(name_of(record.dtype)), record.shape, to_text(record.digest));
    }
  }
  return steps;
}

/// Channels whose every Python record must be there and equal.
const std::set<std::string> kCompared = {"samples",   "input",  "rng",    "loss", "gradient.local", "gradient",
                                         "optimizer", "weight", "buffer", "ema",  "metric",         "ledger"};

/// Compares one rank; returns how many records were equal. Reports only the first difference of a rank.
std::size_t compare_rank(const std::filesystem::path& python, const std::filesystem::path& worker,
                         std::set<std::string>& channels) {
  const auto expected = python_records(python), actual = worker_records(worker);
  std::size_t equal = 0;
  EXPECT_EQ(expected.size(), actual.size()) << "number of steps, " << worker;
  for (const auto& [step, records] : expected) {
    if (!actual.contains(step)) {
      ADD_FAILURE() << "step " << step << " is missing in " << worker;
      return equal;
    }
    for (const auto& [key, value] : records) {
      if (!kCompared.contains(key.first)) continue;
      const auto found = actual.at(step).find(key);
      const std::string ours = found == actual.at(step).end() ? "not recorded" : found->second;
      if (ours != value) {
        ADD_FAILURE() << worker << ": step " << step << ", " << key.first << " " << key.second << "\n  Python " << value
                      << "\n  worker " << ours;
        return equal;
      }
      channels.insert(key.first);
      ++equal;
    }
  }
  return equal;
}

/// A worker that computes on GPUs, where LOCKSTEP_CUDA_WORKER names one: every case runs on one rank of its first GPU
/// then, except what the CPU alone has.
std::string cuda_worker() {
  const char* worker = std::getenv("LOCKSTEP_CUDA_WORKER");
  return worker == nullptr ? "" : worker;
}

/// *Source*: train.device in harness/scenario/scenario.schema.json.
void put_on_gpu(Json& variant) {
  variant["world_size"] = 1;
  variant["train"]["device"] = "cuda";
}

/// The scenario with the variants of this run's part of the tests, and those that they load from.
Json part_of(const Json& scenario, const scenario::Scenario& whole) {
  std::set<std::string> taken;
  for (std::size_t i = 0; i < whole.variants.size(); ++i) {
    if (!in_part(i, whole.variants.size())) continue;
    taken.insert(whole.variants[i].name);
    for (const std::string& source : scenario::sources_of(whole.variants[i])) taken.insert(source);
  }
  Json part = {{"name", whole.name},
               {"description", whole.description},
               {"train", Json::object()},
               {"checks", scenario.at("checks")}};
  std::int64_t most_ranks = 0;
  for (const scenario::Variant& variant : whole.variants) {
    if (!taken.contains(variant.name)) continue;
    most_ranks = std::max(most_ranks, variant.world_size);
    Json& taken_variant = part["variants"][variant.name];
    taken_variant = {{"world_size", variant.world_size}, {"train", variant.train_json}};
    if (!cuda_worker().empty()) put_on_gpu(taken_variant);
  }
  if (!cuda_worker().empty()) most_ranks = 1;
  if (most_ranks == 1) part["checks"] = Json::array({{{"that", "ledger"}}});  // one rank agrees with nobody
  return part;
}

}  // namespace

void expect_parity(const Json& scenario, const std::set<std::string>& least_channels, const Json& twin) {
  const Scratch scratch;
  const auto whole = scratch.write("scenario.json", scenario.dump(1));
  const auto file = scratch.write("part.json", part_of(scenario, scenario::load_scenario(whole)).dump(1));
  const auto runs = scratch.path() / "runs";
  std::vector<std::string> command{lockstep_program(), "run", file, "--out", runs, "--jobs", "4"};
  if (!cuda_worker().empty()) command.insert(command.end(), {"--worker", cuda_worker()});
  const Outcome ours = run_program(command, 600);
  ASSERT_EQ(ours.exit_code, 0) << ours.out << ours.err;

  std::map<std::int64_t, Json> cases;  // by world size
  const auto root = runs / scenario.at("name").get<std::string>();
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    const Json spec = read_json(entry.path() / "0/run.json");
    Json one = {{"name", entry.path().filename().string()}, {"spec", spec}};
    if (Json& files = one["spec"]["files"]; files.contains("checkpoint"))
      files["checkpoint"] = (entry.path() / "0" / files["checkpoint"].get<std::string>()).lexically_normal().string();
    one.update(twin);
    cases[spec.at("world_size").get<std::int64_t>()].push_back(one);
  }
  ASSERT_FALSE(cases.empty());
  std::set<std::string> channels;
  std::size_t equal = 0, compared_cases = 0;
  for (const auto& [world_size, list] : cases) {
    const auto input = scratch.write("cases-" + std::to_string(world_size) + ".json", list.dump());
    const auto output = scratch.path() / ("python-" + std::to_string(world_size));
    const std::string said = python_twins().run(world_size, input, output);
    ASSERT_EQ(said, "");
    for (const Json& one : list) {
      const std::string name = one.at("name").get<std::string>();
      for (std::int64_t rank = 0; rank < world_size; ++rank) {
        equal += compare_rank(output / name / trace::file_name_of_rank(rank),
                              root / name / "0" / trace::file_name_of_rank(rank), channels);
      }
      ++compared_cases;
    }
  }
  for (const std::string& channel : least_channels) {
    if (!takes_all() && !kCore.contains(channel)) continue;  // perhaps in another part
    EXPECT_TRUE(channels.contains(channel)) << "nothing of " << channel << " was compared";
  }
  ::testing::Test::RecordProperty("cases", static_cast<int>(compared_cases));
  std::printf("%zu cases, %zu records equal\n", compared_cases, equal);
}

Json base_scenario(const std::string& name) {
  return {{"name", name},
          {"description", "Parity with Python."},
          {"train",
           {{"model", {{"kind", "lenet"}}},
            {"data",
             {{"kind", "digits"}, {"path", (source_root() / "scenarios/data/digits.csv.gz").string()}, {"size", 60}}},
            {"batch", {{"global", 24}}},
            {"optimizer", {{"kind", "sgd"}, {"lr", 0.1}, {"momentum", 0.9}}},
            {"steps", 10},
            {"seed", {{"base", 1234}}}}},
          {"checks", Json::array({{{"that", "ledger"}}})}};
}

}  // namespace lockstep::test
