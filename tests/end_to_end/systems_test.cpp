// The recipes of real systems, each with the mistakes that are made with it: all of them as their scenario says.
#include <algorithm>
#include <set>

#include "harness/base/files.h"

#include "tests/end_to_end/fixture.h"
#include "tests/support/part.h"

namespace lockstep::test {
namespace {

std::filesystem::path file_of(const std::string& recipe) {
  return source_root() / "scenarios/systems" / (recipe + ".jsonc");
}

class SystemsEndToEnd : public EndToEnd {
 protected:
  /// A recipe that is changed is no longer the recipe: each change turns a check of what it changes red.
  void expect_red(const std::vector<std::pair<const char*, const char*>>& changes) {
    std::filesystem::create_directory_symlink(source_root() / "scenarios/data", scratch_.path() / "data");
    std::filesystem::create_directory(scratch_.path() / "systems");
    for (std::size_t i = 0; i < changes.size(); ++i) {
      if (!in_part(i, changes.size())) continue;
      const auto& [name, change] = changes[i];
      SCOPED_TRACE(change);
      Json scenario = read_json(file_of(name));
      const std::string_view changed = change;
      if (changed.starts_with("variants.")) {
        const std::string_view variant = changed.substr(std::string_view("variants.").size());
        keep_what_tells_of(scenario, std::string(variant.substr(0, variant.find_first_of(".="))));
      }
      const Outcome outcome =
          run_lockstep({"run", scratch_.write("systems/scenario.json", scenario.dump()), "--set", change});
      EXPECT_EQ(outcome.exit_code, 1) << outcome.out << outcome.err;
    }
  }

 private:
  static bool tells_of(const Json& part, const std::string& variant) {
    return part.dump().find(Json(variant).dump()) != std::string::npos;
  }

  /// Leaves the checks of one variant, and the variants that these compare it with or that those load from.
  static void keep_what_tells_of(Json& scenario, const std::string& variant) {
    const std::set<std::string> of_each = {"ranks_agree", "ranks_differ", "covers", "ledger", "repeatable"};
    Json checks = Json::array();
    for (Json check : scenario.at("checks")) {
      if (!tells_of(check, variant)) continue;
      if (of_each.contains(check.at("that").get<std::string>())) check["variants"] = {variant};
      checks.push_back(std::move(check));
    }
    scenario["checks"] = std::move(checks);
    Json kept = Json::object();
    for (std::size_t before = 1; before != kept.size();) {
      before = kept.size();
      for (const auto& [name, changes] : scenario.at("variants").items()) {
        if (tells_of(scenario["checks"], name) || tells_of(kept, name)) kept[name] = changes;
      }
    }
    scenario["variants"] = std::move(kept);
  }
};

TEST_F(SystemsEndToEnd, EveryRecipeIsAsItsScenarioSays) {
  std::set<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(source_root() / "scenarios/systems"))
    files.insert(file.path().string());
  ASSERT_GE(files.size(), 10U);
  const auto json = scratch_.path() / "result.json";
  std::vector<std::string> gate = {"gate", "--json", json};
  std::size_t index = 0;
  for (const std::string& file : files) {
    if (in_part(index++)) gate.push_back(file);
  }
  const Outcome outcome = run_lockstep(gate);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const Json result = read_json(json);
  EXPECT_EQ(result.at("scenarios").size(), gate.size() - 3);
  EXPECT_EQ(result.at("runs_finished"), result.at("runs_total"));
  const bool warns = std::find(gate.begin(), gate.end(), file_of("stmixer").string()) != gate.end();
  ASSERT_EQ(result.at("warnings").size(), warns ? 1U : 0U) << result.at("warnings");
  if (warns) expect_says(result.at("warnings")[0], {"stmixer/no-head", "'roi_heads.'", "does nothing"});

  const std::string table = read_file(source_root() / "docs/systems.md");
  for (const Json& scenario : result.at("scenarios")) {
    EXPECT_FALSE(scenario.at("practices").empty()) << scenario.at("name");
    for (const Json& practice : scenario.at("practices"))
      expect_says(table, {"| " + practice.get<std::string>() + " | [" + scenario.at("name").get<std::string>() + "]("});
  }
}

TEST_F(SystemsEndToEnd, AChangedUpdateIsRed) {
  expect_red({{"detr", "variants.again.train={\"gradient\": {\"clip_norm\": 0.2}}"},
              {"tczhangzhi", "variants.apex.train.gradient.loss_scale=100"},
              {"tczhangzhi", "variants.divided-by-devices.train.faults=[]"},
              {"tczhangzhi", "variants.apex.train={}"},
              {"imagenet", "variants.no-accel.train.ddp.wrap=true"},
              {"ddp-notes", "variants.accumulated-synced.train.batch.no_sync=true"},
              {"ddp-notes", "variants.sync-3.train.model.norm=batch"}});
}

TEST_F(SystemsEndToEnd, AChangedScheduleIsRed) {
  expect_red({{"accelerate", "variants.one-rank.train.schedule_every=epoch"},
              {"stmixer", "train.schedule={\"kind\": \"multistep\", \"milestones\": [6, 9]}"},
              {"ddp-notes", "variants.square-root.train.learning_rate_rule.kind=linear"}});
}

TEST_F(SystemsEndToEnd, ChangedDataAreRed) {
  expect_red({{"elastic", "variants.pytorchs-sampler.train.sampler.seed=1"},
              {"data-formats", "variants.sample-w2.train.data.seed=1"},
              {"data-formats", "variants.images.train.data.size=9"},
              {"arcworld", "train.sampler={\"kind\": \"contiguous\", \"shuffle\": true, \"set_epoch\": true}"},
              {"accelerate", "variants.ends-with-one.train.batch.at_epoch_end=carry"}});
}

TEST_F(SystemsEndToEnd, AChangedCheckpointIsRed) {
  expect_red(
      {{"stmixer", "variants.no-head.train.checkpoint.load.keys.skip=[\"fc2.\"]"},
       {"ddp-tutorial", "variants.resumed.train.checkpoint.load.restore=[\"weights\", \"schedule\", \"sampler\"]"},
       {"elastic", "variants.shrunk.train.checkpoint.load.epoch=next"},
       {"detr", "variants.next-epoch.train.checkpoint.load.number=3"},
       {"arcworld", "variants.newest-by-name.train.checkpoint.load.pick=highest_number"}});
}

TEST_F(SystemsEndToEnd, AChangedEvaluationIsRed) {
  expect_red({{"imagenet", "variants.padding-counted.train.evaluation.shares=trimmed"},
              {"stmixer", "variants.reduce-dict.train.evaluation.reduce=all"}});
}

}  // namespace
}  // namespace lockstep::test
