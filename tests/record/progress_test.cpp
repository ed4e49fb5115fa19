// A recorded program tells `lockstep run` where it is.
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "harness/base/json.h"

#include "tests/record/fixture.h"

namespace lockstep::test {
namespace {

/// What `lockstep run` says of one rank that `deed` of recording.c plays instead of the worker.
Json verdict_of(const std::string& deed) {
  const Scratch scratch;
  const auto worker = scratch.write("worker",
                                    "#!/bin/sh\n[ \"$1\" = --build-id ] && { echo foreign; exit 0; }\n"
                                    "exec " PROGRAM_recording " " +
                                        deed + " \"$4\"\n");
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  const auto scenario = scratch.write("stops.json", R"({
    "name": "stops", "description": "A program of the user's.",
    "train": {"model": {"kind": "lenet"}, "data": {"kind": "digits", "path": ")" +
                                                        (source_root() / "scenarios/data/digits.csv.gz").string() +
                                                        R"("}, "batch": {"global": 24},
              "optimizer": {"kind": "sgd", "lr": 0.05}, "steps": 8},
    "launch": {"deadline_s": 60, "stall_s": 1.5},
    "variants": {"one": {"world_size": 1}},
    "checks": [{"that": "finishes", "variants": ["one"]}]})");
  const Outcome outcome = run_program(
      {lockstep_program(), "run", scenario, "--worker", worker, "--out", scratch.path() / "out", "--json", "-"}, 120);
  return Json::parse(outcome.out.empty() ? outcome.err : outcome.out);
}

TEST(RecordedProgress, AProgramThatStopsInStep3IsHungAtStep3) {
  const std::string verdict = verdict_of("stop").dump(1);
  EXPECT_NE(verdict.find("made no progress for 1.5 s at step 3"), std::string::npos) << verdict;
}

}  // namespace
}  // namespace lockstep::test
