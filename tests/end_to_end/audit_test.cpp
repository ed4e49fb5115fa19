// `lockstep audit` on real trainings: the audits of recipes in scenarios/audit, and mistakes that break an identity.
// The commit chooses some of each. What the answers are is decided in tests/audit, on trainings in memory.
#include <algorithm>
#include <set>

#include "harness/base/files.h"
#include "harness/base/text.h"

#include "tests/end_to_end/fixture.h"
#include "tests/support/part.h"

namespace lockstep::test {
namespace {

class AuditEndToEnd : public EndToEnd {
 protected:
  struct Audited {
    Outcome process;
    Json json;

    /// The line with this id; a failure where there is none.
    Json line(const std::string& id) const {
      for (const Json& line : json.value("lines", Json::array())) {
        if (line.at("id") == id) return line;
      }
      ADD_FAILURE() << "no line " << id << "\n" << process.out << process.err;
      return {{"answer", ""}, {"cause", ""}, {"because", ""}, {"values", Json::array()}};
    }

    std::string answer(const std::string& id) const { return line(id).at("answer").get<std::string>(); }
  };

  /// One variant, `main`, of 48 digits in batches of 48 that 2, 3, 4 and 8 ranks divide.
  static Json recipe(const Json& train = Json::object()) {
    Json whole =
        scenario({{"train", {{"data", {{"size", 480}}}, {"batch", {{"global", 48}}}}}, {"checks", {check("laws")}}});
    for (const char* key : {"variants", "world_size", "repeats"}) whole.erase(key);
    merge_json(whole["train"], train);
    if (train.contains("batch")) whole["train"]["batch"] = train["batch"];
    for (const char* key : {"model", "optimizer"}) {
      if (train.contains(key) && train[key].contains("kind")) whole["train"][key] = train[key];
    }
    return whole;
  }

  Audited audited(const std::filesystem::path& file, std::vector<std::string> more,
                  const std::string& kind = "scaling") {
    const auto json = scratch_.path() / "audit.json";
    std::filesystem::remove(json);
    std::vector<std::string> arguments = {"audit", kind, file, "--json", json};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Audited result{.process = run_lockstep(arguments)};
    if (std::filesystem::exists(json)) result.json = read_json(json);
    return result;
  }

  Audited audited(const Json& recipe, const std::vector<std::string>& more) { return audited(write(recipe), more); }
};

const std::vector<std::int64_t> kWorlds = {2, 3, 4, 8};

std::vector<std::string> only(const std::string& line) { return {"--ranks", "1,2,3,4,8", "--only", line + "@"}; }

/// A mistake in a recipe, the line that it breaks, and the cause that is named.
struct Broken {
  const char* line;
  Json train;
  const char* cause;
  const char* answer = "broken";
  bool at_all_worlds = true;
};

TEST_F(AuditEndToEnd, EveryIdentityIsBrokenByAPlantedMistakeAtEveryWorldSize) {
  const auto planted = [](const char* kind, const Json& options = Json::object()) {
    return Json{{"faults", Json::array({fault(kind, 0, -1, options)})}};
  };
  const auto with = [](Json a, const Json& b) {
    merge_json(a, b);
    return a;
  };
  const Json adam = {{"optimizer", {{"kind", "adam"}, {"lr", 0.001}}}};
  const Json decays = {{"optimizer", {{"weight_decay", 0.1}}}};
  const Json halves = {{"schedule", {{"kind", "step"}, {"every", 2}, {"gamma", 0.5}}}};
  const std::vector<Broken> all = {
      {"one-batch", {{"ddp", {{"average", false}}}}, "grad.reduce_sum"},
      {"one-batch", planted("ddp_wrong", {{"average", false}}), "grad.reduce_sum"},
      {"reduction", planted("ddp_wrong", {{"average", false}}), "grad.reduce_sum"},
      {"ledger", with(planted("schedule_wrong", {{"steps", "by_rank"}}), halves), "lr.schedule_rate"},
      {"sum", with(planted("decay_wrong", {{"mistake", "without_rate"}}), decays), "opt.decay_scale"},
      {"sum", planted("hyperparameter_wrong", {{"option", "weight_decay"}, {"value", 0.1}}), ""},
      {"accumulation", planted("accumulation_divisor", {{"divisor", 1}}), "grad.accum_scale"},
      {"accumulation", planted("accumulation_lost"), ""},
      {"momentum", planted("hyperparameter_wrong", {{"option", "momentum"}, {"value", 0.5}}), "opt.hyperparameter",
       "broken", false},
      {"momentum", with(planted("update_rate_wrong", {{"factor", 0.5}, {"step", 2}}), halves), "opt.other_rate",
       "broken", false},
      {"order", {{"ddp", {{"average", false}}}}, ""},
      {"order", planted("ddp_wrong", {{"average", false}}), ""},
      {"scale-free", with(planted("state_rounded", {{"dtype", "fp16"}}), adam), ""},
      {"scale-free", with(planted("formula_wrong", {{"formula", "no_root"}}), adam), ""},
      {"reduction", with(planted("ddp_wrong", {{"average", false}}), adam), "grad.reduce_sum"},
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!in_part(i, all.size())) continue;
    const Broken& one = all[i];
    std::vector<std::string> words = only(one.line);
    const auto markdown = scratch_.path() / "audit.md", chart = scratch_.path() / "audit.svg";
    words.insert(words.end(), {"--markdown", markdown, "--chart", chart});
    const Audited result = audited(recipe(one.train), words);
    expect_says(read_file(markdown), {"| `" + std::string(one.line) + "@", "lockstep audit scaling "});
    expect_says(read_file(chart), {"<svg xmlns", "</svg>"});
    EXPECT_EQ(result.process.exit_code, 1) << one.line << one.train << "\n" << result.process.out << result.process.err;
    for (const std::int64_t ranks : kWorlds) {
      if (!one.at_all_worlds && ranks != kWorlds.back()) continue;
      if (std::string(one.line) == "scale-free" && ranks == 3) continue;  // no power of two
      const Json line = result.line(std::string(one.line) + "@" + std::to_string(ranks));
      EXPECT_EQ(line.at("answer"), one.answer) << one.line << one.train << line;
      EXPECT_EQ(line.at("cause").get<std::string>().rfind(one.cause, 0), 0U) << one.line << one.train << line;
    }
  }
}

TEST_F(AuditEndToEnd, BadInputIsRefused) {
  const auto file = write(recipe());
  const auto refused = [&](const std::vector<std::string>& more, const std::vector<std::string>& parts) {
    const Audited result = audited(file, more);
    EXPECT_EQ(result.process.exit_code, 2) << result.process.out;
    expect_says(result.process.err, parts);
  };
  refused({"--variant", "mian"}, {"unknown variant 'mian'", "did you mean 'main'?"});
  refused({"--only", "one-bach"}, {"no line of the audit begins with 'one-bach'", "did you mean"});
  refused({"--ranks", "0"}, {"--ranks"});
  refused({"--set", "train.optimizer.lrr=1"}, {"lrr"});
  refused({"--markdown", "/no/such/folder/x.md"}, {"cannot be written"});
  const Json findings = {{"audit", "scaling"},
                         {"description", "One that is misspelt."},
                         {"scenario", file.filename().string()},
                         {"findings", {{"one-batch@2", "rounded"}}}};
  const Audited misspelt = audited(scratch_.write("audit.jsonc", findings.dump()), {});
  EXPECT_EQ(misspelt.process.exit_code, 2);
  expect_says(misspelt.process.err, {"unknown answer 'rounded'", "findings.one-batch@2", "did you mean 'rounding'?"});
}

/// The audits of a folder that this part of the tests runs.
std::vector<std::string> audits_in(const std::filesystem::path& folder, std::size_t at_least) {
  std::set<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() == ".jsonc") files.insert(file.path().string());
  }
  EXPECT_GE(files.size(), at_least);
  std::size_t index = 0;
  std::vector<std::string> chosen;
  for (const std::string& file : files) {
    if (in_part(index++)) chosen.push_back(file);
  }
  return chosen;
}

TEST_F(AuditEndToEnd, EveryAuditOfARecipeHasTheFindingsThatItWritesDown) {
  const std::filesystem::path folder = source_root() / "scenarios/audit";
  for (const auto& [kind, files] :
       {std::pair("scaling", audits_in(folder, 15)), std::pair("checkpoint", audits_in(folder / "checkpoint", 8))}) {
    std::vector<std::string> arguments = {"audit", kind};
    arguments.insert(arguments.end(), files.begin(), files.end());
    const Outcome outcome = run_lockstep(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  }
}

/// Momentum, running means and an average of the weights: all that a checkpoint can hold matters, but for generators.
const Json kHoldsAll = {{"model", {{"kind", "resnet"}, {"widths", {4, 8}}, {"norm", "batch"}}},
                        {"ema", {{"decay", 0.9}}}};

TEST_F(AuditEndToEnd, AMistakeOfTheRestartBreaksACheckpointAuditAndIsNamed) {
  const std::vector<std::pair<Json, std::string>> all = {
      {{{"kind", "state_cast"}}, "ckpt.dtype_cast"},
      {{{"kind", "counter_off"}}, "ckpt.off_by_one"},
      {{{"kind", "draw_after_restore"}}, "ckpt.rng_order"},
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!in_part(i, all.size())) continue;
    const auto& [planted, cause] = all[i];
    Json whole = recipe(kHoldsAll);
    whole["world_size"] = 2;
    whole["variants"] = {
        {"whole", Json::object()},
        {"saved", {{"train", {{"checkpoint", {{"save_after", 1}}}}}}},
        {"recipe", {{"train", {{"checkpoint", {{"load", {{"from", "saved"}}}}}, {"faults", {planted}}}}}}};
    const Audited result = audited(write(whole), {"--only", "everything", "--ranks", "2"}, "checkpoint");
    EXPECT_EQ(result.process.exit_code, 1) << result.process.out << result.process.err;
    EXPECT_EQ(result.answer("everything"), "broken");
    EXPECT_EQ(result.line("everything").at("cause").get<std::string>().rfind(cause, 0), 0U)
        << result.line("everything");
  }
}

TEST_F(AuditEndToEnd, ACheckpointAuditRefusesProgramsOneUpdateAndFilesOfAnotherAudit) {
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& words) {
    const Outcome outcome = run_lockstep(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  const std::filesystem::path scenarios = source_root() / "scenarios";
  refused({"audit", "checkpoint", scenarios / "gate/resume.jsonc", "--steps", "1"}, "no update between");
  refused({"audit", "checkpoint", scenarios / "audit/detr.jsonc"}, "the file is of another audit");
  const Json program = {{"name", "own"},
                        {"description", "A program."},
                        {"program", {{"command", {"true", "{world_size}"}}}},
                        {"checks", {check("reduction")}}};
  refused({"audit", "checkpoint", write(program)}, "a program's checkpoints cannot be audited");
  refused({"audit", "scaling", scenarios / "audit/checkpoint/detr.jsonc"}, "the file is of another audit");
}

}  // namespace
}  // namespace lockstep::test
