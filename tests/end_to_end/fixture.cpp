#include "tests/end_to_end/fixture.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>

#include <sys/stat.h>

#include "harness/base/files.h"
#include "harness/trace/line.h"
#include "harness/trace/reader.h"
#include "harness/trace/writer.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

/// Generous: on a machine that is busy a training takes seconds, and all recipes together minutes.
constexpr double kTimeout_s = 400;

/// The only element of a list for which `wanted` holds.
template <typename Wanted>
Json only(const Json& list, const std::string& what, const Wanted& wanted) {
  Json found;
  std::size_t count = 0;
  for (const Json& element : list) {
    if (!wanted(element)) continue;
    found = element;
    ++count;
  }
  EXPECT_EQ(count, 1U) << what;
  return count == 1 ? found : Json();
}

}  // namespace

std::string Result::said() const {
  return "exit code " + std::to_string(process.exit_code) + "\n" + process.out + process.err;
}

Json Result::check(const std::string& relation) const {
  return only(json.value("checks", Json::array()), "checks '" + relation + "' in the result; " + said(),
              [&](const Json& check) { return check.at("relation") == relation; });
}

Json Result::failed_run() const {
  return only(json.value("failed_runs", Json::array()), "failed runs; " + said(), [](const Json&) { return true; });
}

Json EndToEnd::scenario(const Json& changes) {
  Json scenario = {
      {"name", "tiny"},
      {"description", "A training of a second."},
      {"world_size", 2},
      {"train",
       {{"model", {{"kind", "mlp"}, {"hidden", {16}}}},
        {"data",
         {{"kind", "digits"}, {"path", (source_root() / "scenarios/data/digits.csv.gz").string()}, {"size", 48}}},
        {"batch", {{"global", 12}}},
        {"optimizer", {{"kind", "sgd"}, {"lr", 0.1}, {"momentum", 0.9}}},
        {"steps", 4},
        {"seed", {{"base", 3}}}}},
      {"checks", Json::array({check("ranks_agree")})}};
  merge_json(scenario, changes);
  return scenario;
}

fs::path EndToEnd::write(const Json& scenario) const {
  return scratch_.write(scenario.at("name").get<std::string>() + ".json", scenario.dump(1));
}

Result EndToEnd::run(const Json& scenario, const std::vector<std::string>& more) {
  return run_file(write(scenario), more);
}

Result EndToEnd::run_file(const fs::path& file, const std::vector<std::string>& more, const fs::path& from) {
  std::vector<std::string> words{file.string()};
  words.insert(words.end(), more.begin(), more.end());
  return judged("run", words, from);
}

Result EndToEnd::judged(const std::string& command, const std::vector<std::string>& more, const fs::path& from) {
  const std::string number = std::to_string(++runs_);
  const fs::path json = scratch_.path() / ("result" + number + ".json");
  Result result{.out = scratch_.path() / ("runs" + number)};
  std::vector<std::string> arguments = {command,  "--golden", golden_root(), "--out", result.out,
                                        "--json", json,       "--jobs",      "4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const auto begin = std::chrono::steady_clock::now();
  result.process = run_lockstep(arguments, from);
  result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!fs::exists(json)) return result;
  result.json = read_json(json);
  EXPECT_EQ(result.json.at("exit_code"), result.exit_code()) << result.said();
  EXPECT_EQ(result.json.at("format"), command == "run" ? "lockstep.result/1" : "lockstep." + command + "/1");
  return result;
}

void EndToEnd::accept(const Json& scenario, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"golden",   "accept",          write(scenario), "--golden", golden_root(),
                                        "--reason", "end-to-end test", "--jobs",        "4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = run_lockstep(arguments);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
}

fs::path EndToEnd::script_worker(const std::string& script) const {
  const std::string text = "#!/bin/sh\nspec=$2\nout=$4\nworker='" + worker_program().string() + "'\n" + script + "\n";
  const fs::path file = scratch_.write("worker.sh", text);
  EXPECT_EQ(::chmod(file.c_str(), 0755), 0);
  return file;
}

fs::path EndToEnd::golden_file(const std::string& scenario, const std::string& variant) const {
  return golden_root() / scenario / (variant + ".golden");
}

Outcome run_lockstep(std::vector<std::string> arguments, const fs::path& from) {
  ::unsetenv("CI");  // which would refuse every acceptance
  arguments.insert(arguments.begin(), lockstep_program());
  return run_program(arguments, kTimeout_s, from);
}

Json fault(const std::string& kind, std::int64_t step, std::int64_t rank, const Json& more) {
  Json fault = {{"kind", kind}, {"step", step}, {"rank", rank}};
  fault.update(more);
  return fault;
}

Json check(const std::string& kind, const Json& more) {
  Json check = {{"that", kind}};
  check.update(more);
  return check;
}

Json at(const std::string& dotted_path, Json value) {
  std::string pointer = "/" + dotted_path;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  Json changes = Json::object();
  changes[Json::json_pointer(pointer)] = std::move(value);
  return changes;
}

Json merged(std::initializer_list<Json> changes) {
  Json result = Json::object();
  for (const Json& change : changes) merge_json(result, change);
  return result;
}

void expect_divergence(const Json& check, const Place& place, const std::string& kind) {
  ASSERT_TRUE(check.is_object());
  EXPECT_EQ(check.at("status"), "divergence") << check.dump(1);
  EXPECT_EQ(check.at("class"), kind) << check.dump(1);
  const Json& first = check.at("first_divergence");
  ASSERT_TRUE(first.is_object()) << check.dump(1);
  EXPECT_EQ(first.at("step"), place.step) << check.dump(1);
  EXPECT_EQ(first.at("channel"), place.channel) << check.dump(1);
  EXPECT_EQ(first.at("tensor"), place.tensor) << check.dump(1);
  EXPECT_EQ(first.at("rank"), place.rank) << check.dump(1);
}

void expect_green(const Result& result) {
  ASSERT_EQ(result.exit_code(), 0) << result.said();
  EXPECT_EQ(result.json.at("status"), "agree");
  EXPECT_EQ(result.json.at("runs_finished"), result.json.at("runs_total"));
  EXPECT_TRUE(result.json.at("failed_runs").empty());
  for (const Json& check : result.json.at("checks")) {
    EXPECT_EQ(check.at("status"), "agree") << check.dump(1);
    EXPECT_GT(check.at("records_compared"), 0) << check.dump(1);
  }
}

void expect_says(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in:\n" << text;
}

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  EXPECT_TRUE(stream.good()) << file;
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string read_text(const fs::path& file) { return lockstep::read_file(file); }

void rewrite(const fs::path& file, const std::function<void(trace::Trace&)>& change) {
  trace::Trace trace = trace::read_trace(file);
  change(trace);
  fs::remove(file);
  trace::Writer writer(file, trace.header);
  for (const trace::Step& step : trace.steps) writer.write(trace::line_of(step));
  writer.finish();
}

void write_lines(const fs::path& file, const std::vector<std::string>& lines) {
  std::ofstream stream(file, std::ios::binary);
  for (const std::string& line : lines) stream << line << "\n";
}

}  // namespace lockstep::test
