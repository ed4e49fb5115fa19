// A golden that differs in one bit is red, and tells where; one that is missing, strange or torn is never green.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "harness/golden/store.h"

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

class GoldenEndToEnd : public EndToEnd {
 protected:
  /// Trains and holds against goldens, and nothing else.
  static Json against_golden(const Json& changes = Json::object()) {
    return scenario(merged({{{"name", "gold"}, {"checks", Json::array({check("golden")})}}, changes}));
  }

  /// Green against a golden that was just accepted; the scenario.
  Json accepted(const Json& changes = Json::object()) {
    const Json scenario = against_golden(changes);
    accept(scenario);
    expect_green(run(scenario));
    return scenario;
  }
};

/// Changes the lowest bit of the digest of one record, and seals the golden again if asked to.
void flip_digest(const std::filesystem::path& file, const Place& place, bool seal) {
  golden::Golden golden = golden::read_golden(file).value();
  trace::Trace& rank = golden.entries.at(0).run.ranks.at(static_cast<std::size_t>(place.rank));
  const std::string sound = golden::to_text(golden);
  for (trace::Step& step : rank.steps) {
    for (trace::Record& record : step.records) {
      if (step.step == place.step && name_of(record.channel) == place.channel && record.name == place.tensor)
        record.digest.low ^= 1;
    }
  }
  std::string text = golden::to_text(golden);
  ASSERT_NE(text, sound);
  if (!seal) text = text.substr(0, text.rfind("end ")) + sound.substr(sound.rfind("end "));
  std::ofstream(file, std::ios::binary) << text;
}

TEST_F(GoldenEndToEnd, OneFlippedDigitIsRedAndLocated) {
  const Json scenario = accepted();
  const auto file = golden_file("gold");
  const std::string whole = read_text(file);
  const Place places[] = {{-1, "weight", "fc2.bias", 1},     {0, "samples", "ids", 1},
                          {2, "gradient", "fc1.weight", 1},  {2, "optimizer", "", 1},
                          {3, "ledger", "learning_rate", 1}, {3, "weight", "fc1.bias", 1}};
  for (Place place : places) {
    SCOPED_TRACE(place.channel + " " + place.tensor + " at step " + std::to_string(place.step));
    if (place.channel == "optimizer") place.tensor = "fc1.weight.momentum_buffer";
    scratch_.write(std::filesystem::relative(file, scratch_.path()), whole);
    flip_digest(file, place, /*seal=*/true);
    const Result red = run(scenario);
    EXPECT_EQ(red.exit_code(), 1) << red.said();
    expect_divergence(red.check("golden"), place);
  }
}

TEST_F(GoldenEndToEnd, ABuildWithOtherFlagsIsNamed) {
  const Json scenario = accepted({{"train", {{"schedule", {{"kind", "cosine"}, {"period", 7}, {"least", 0.01}}}}}});
  const Result red = run(scenario, {"--worker", worker_program().string() + "-contracted"});
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  const Json report = red.check("golden");
  EXPECT_EQ(report.at("class"), "environment");
  EXPECT_EQ(report.at("cause"), "env.build_flags") << red.said();
  expect_says(red.said(), {"-ffp-contract=off", "-ffp-contract=fast"});
}

TEST_F(GoldenEndToEnd, DamageIsNotAPass) {
  for (const Json& channels : {Json({"samples", "loss"}), Json({"weight"})}) {
    const Json scenario = accepted({{"checks", Json::array({check("golden", {{"on", channels}})})}});
    const std::string tensor = channels.size() == 1 ? "fc1.weight" : "ids";
    flip_digest(golden_file("gold"), {2, channels[0], tensor, 0}, /*seal=*/false);
    const Result result = run(scenario);
    EXPECT_EQ(result.exit_code(), 4) << result.said();
    EXPECT_EQ(result.check("golden").at("status"), "inconclusive");
    expect_says(result.check("golden").at("why"), {"damaged", "SHA-256", "main.golden, line"});
    expect_says(result.check("golden").at("next"), {"restore it from version control"});
    std::filesystem::remove(golden_file("gold"));
  }
}

TEST_F(GoldenEndToEnd, LearningRateOneTenThousandthLarger) {
  const Json scenario = accepted({{"variants", {{"main", Json::object()}, {"other", Json::object()}}},
                                  {"checks", Json::array({check("golden", {{"variants", {"main", "other"}}})})}});
  const Result red = run(scenario, {"--set", "train.optimizer.lr=0.10001"});
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  const Json check = red.check("golden");
  expect_divergence(check, {0, "weight", "fc1.weight", 0});
  expect_says(check.at("explanation"), {"learning rate", "train.optimizer.lr 0.1 -> 0.10001"});
  EXPECT_EQ(check.at("cause"), "recipe.changed");
  ASSERT_EQ(check.at("experiments").size(), 1U) << red.said();
  EXPECT_EQ(check.at("experiments")[0].at("control"), "replay");
  std::vector<std::string> ran;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(red.out / ".experiments")) {
    if (entry.path().filename() == "rank0.jsonl")
      ran.push_back(std::filesystem::relative(entry.path().parent_path(), red.out / ".experiments").string());
  }
  EXPECT_EQ(ran, std::vector<std::string>{"replay/gold/main/0"}) << "nothing else could change the cause";
  expect_says(red.process.out, {"DIVERGENCE", "step 0, channel weight, tensor fc1.weight, rank 0"});
}

TEST_F(GoldenEndToEnd, TwoSamplesSwapped) {
  const Json scenario = accepted({{"world_size", 3}});
  for (const auto& [step, rank] : {std::pair{0, 0}, std::pair{2, 1}, std::pair{3, 2}}) {
    SCOPED_TRACE("step " + std::to_string(step) + ", rank " + std::to_string(rank));
    Json swapped = scenario;
    swapped["train"]["faults"] = {fault("swap_samples", step, rank, {{"first", 1}, {"second", 2}})};
    const Result red = run(swapped);
    EXPECT_EQ(red.exit_code(), 1) << red.said();
    expect_divergence(red.check("golden"), {step, "samples", "ids", rank});
    expect_says(red.check("golden").at("first_divergence").at("relation"), {"position 1"});
  }
}

TEST_F(GoldenEndToEnd, ADataFileThatChangedIsNamed) {
  std::string digits;
  for (int sample = 0; sample < 48; ++sample) {
    for (int pixel = 0; pixel < 64; ++pixel) digits += std::to_string((7 * sample + 3 * pixel) % 17) + ",";
    digits += std::to_string(sample % 10) + "\n";
  }
  scratch_.write("digits.csv", digits);
  const Json scenario = accepted(at("train.data.path", "digits.csv"));
  digits[0] = '1';
  scratch_.write("digits.csv", digits);
  const Result red = run(scenario);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  const Json report = red.check("golden");
  EXPECT_EQ(report.at("cause"), "data.content");
  EXPECT_EQ(report.at("first_divergence").at("channel"), "input");
}

TEST_F(GoldenEndToEnd, NoGolden) {
  const Result result = run(against_golden());
  EXPECT_EQ(result.exit_code(), 3) << result.said();
  EXPECT_EQ(result.json.at("status"), result.check("golden").at("status"));
  expect_says(result.check("golden").at("why"), {"there is no golden"});
  expect_says(result.check("golden").at("next"), {"lockstep golden accept"});
}

TEST_F(GoldenEndToEnd, GoldenOfAnotherScenario) {
  const Json scenario = accepted();
  Json other = scenario;
  other["name"] = "other";
  std::filesystem::copy(golden_root() / "gold", golden_root() / "other", std::filesystem::copy_options::recursive);
  const Result result = run(other);
  EXPECT_EQ(result.exit_code(), 3) << result.said();
  expect_says(result.check("golden").at("why"), {"another training", "'other'", "'gold'"});
}

TEST_F(GoldenEndToEnd, GoldenOfAnotherVariantOrWorldSize) {
  const Json scenario = accepted({{"variants", {{"a", Json::object()}, {"b", at("train.optimizer.lr", 0.2)}}}});
  std::filesystem::copy_file(golden_file("gold", "a"), golden_file("gold", "b"),
                             std::filesystem::copy_options::overwrite_existing);
  const Result swapped = run(scenario);
  EXPECT_EQ(swapped.exit_code(), 3) << swapped.said();
  expect_says(swapped.check("golden").at("why"), {"another training", "variant 'b'", "variant 'a'"});
  const Result wider = run(scenario, {"--set", "world_size=3"});
  EXPECT_EQ(wider.exit_code(), 3) << wider.said();
  expect_says(wider.check("golden").at("why"), {"2 ranks", "3 ranks"});
}

TEST_F(GoldenEndToEnd, TornFileIsNamedAndNeverGreen) {
  const Json scenario = accepted();
  const std::string whole = read_text(golden_file("gold"));
  for (const std::size_t left : {std::size_t{0}, whole.size() / 2, whole.size() - 1}) {
    SCOPED_TRACE(std::to_string(left) + " bytes left");
    std::ofstream(golden_file("gold"), std::ios::binary) << whole.substr(0, left);
    const Result result = run(scenario);
    EXPECT_EQ(result.exit_code(), 4) << result.said();
    expect_says(result.process.out, {"main.golden", "damaged", "restore it from version control"});
  }
}

TEST_F(GoldenEndToEnd, NothingIsAcceptedWhileAnotherCheckIsRed) {
  const Json scenario = against_golden(
      {{"variants", {{"main", Json::object()}, {"other", at("train.optimizer.lr", 0.05)}}},
       {"checks", {check("golden", {{"variants", {"main"}}}), check("equal", {{"variants", {"main", "other"}}})}}});
  const Outcome outcome = run_lockstep({"golden", "accept", write(scenario), "--golden", golden_root(), "--reason", "x",
                                        "--out", scratch_.path() / "runs"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(golden_root()));
  expect_says(outcome.err, {"no golden was changed"});
}

/// Neither of the training itself, nor of one that it goes on from.
TEST_F(GoldenEndToEnd, PlantedFaultsNeverReachAGolden) {
  const Json doubled = {{"train", {{"faults", {fault("gradient_factor", 0, -1, {{"factor", 2}})}}}}};
  Json saving = doubled;
  saving["train"].update({{"steps", 2}, {"checkpoint", {{"save_after", 2}}}});
  const Json variants = {{"clean", Json::object()},
                         {"planted", doubled},
                         {"half", saving},
                         {"behind", at("train.checkpoint.load", {{"from", "half"}})}};
  for (const char* variant : {"planted", "behind", "*"}) {
    const Json scenario =
        against_golden({{"variants", variants}, {"checks", {check("golden", {{"variants", {variant}}})}}});
    const Outcome refused =
        run_lockstep({"golden", "accept", write(scenario), "--golden", golden_root(), "--reason", "x"});
    EXPECT_EQ(refused.exit_code, 2) << refused.out << refused.err;
    expect_says(refused.err, {"cannot become a golden", "train.faults", "gradient_factor"});
    EXPECT_FALSE(std::filesystem::exists(golden_root()));
  }
  accept(against_golden({{"variants", variants}, {"checks", {check("golden", {{"variants", {"clean"}}})}}}));
}

TEST_F(GoldenEndToEnd, AcceptTwiceChangesNothing) {
  const Json scenario = accepted();
  const std::string before = read_text(golden_file("gold"));
  const Outcome outcome =
      run_lockstep({"golden", "accept", write(scenario), "--golden", golden_root(), "--reason", "another"});
  EXPECT_EQ(outcome.exit_code, 0);
  expect_says(outcome.out, {"unchanged"});
  EXPECT_EQ(read_text(golden_file("gold")), before);
}

TEST_F(GoldenEndToEnd, AcceptedGoldenIsGreenAgainAfterAnIntendedChange) {
  Json scenario = accepted();
  scenario["train"]["optimizer"]["lr"] = 0.2;
  EXPECT_EQ(run(scenario).exit_code(), 1);
  accept(scenario);
  expect_green(run(scenario));
}

/// An override stands in no file: its golden would be of a training that nobody can start.
TEST_F(GoldenEndToEnd, AnOverrideIsNotAccepted) {
  const Json scenario = accepted();
  const Result red = run(scenario, {"--set", "train.optimizer.lr=0.2"});
  expect_says(red.check("golden").at("next"), {"write train.optimizer.lr=0.2 into the file, then"});
  const std::string before = read_text(golden_file("gold"));
  const Outcome outcome = run_lockstep({"golden", "accept", write(scenario), "--golden", golden_root(), "--reason", "x",
                                        "--set", "train.optimizer.lr=0.2"});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
  expect_says(outcome.err, {"no file holds --set train.optimizer.lr=0.2"});
  EXPECT_EQ(read_text(golden_file("gold")), before);
  EXPECT_EQ(run_lockstep(
                {"golden", "accept", write(scenario), "--golden", golden_root(), "--reason", "x", "--set", "repeats=3"})
                .exit_code,
            0);
}

}  // namespace
}  // namespace lockstep::test
