// After which update a run held the tensors of a file that it wrote.
#include "harness/compare/moments.h"

#include "tests/support/tiny/bench.h"

namespace lockstep::test {
namespace {

using compare::Moments;
using trace::Channel;
using trace::CheckpointFile;

using Steps = std::vector<std::int64_t>;

/// A training of eight updates, and one file that it writes after six of them.
class MomentsTest : public testing::Test {
 protected:
  const trace::RunTrace& run() { return bench_.run("a"); }

  /// A tensor as rank 0 held it after a step.
  void hold(const std::string& as, Channel channel, const std::string& name, std::int64_t step) {
    (*file_.tensors)[as] = to_text(at(bench_.run("a"), 0, step, channel, name).digest);
  }

  void hold_weights(const std::string& prefix, std::int64_t step) {
    for (const char* name : {"fc.bias", "fc.weight"}) hold(prefix + name, Channel::kWeight, name, step);
  }

  void hold_state(std::int64_t step) {
    hold("optimizer.state.0.momentum_buffer", Channel::kOptimizer, "fc.bias.momentum_buffer", step);
    hold("optimizer.state.1.momentum_buffer", Channel::kOptimizer, "fc.weight.momentum_buffer", step);
  }

  std::optional<Moments> found() { return compare::moments_of(run(), {file_})[0]; }

  Steps steps() {
    Steps steps;
    const auto moments = found();
    for (const compare::FilePart& part : moments ? moments->parts : std::vector<compare::FilePart>{})
      steps.push_back(part.step);
    return steps;
  }

  static Json changes() { return {{"train", {{"steps", 8}}}, {"checks", {{{"that", "ranks_agree"}}}}}; }

  Bench bench_{changes()};
  CheckpointFile file_{.written = true, .updates = 6, .sha256 = "a", .tensors = std::map<std::string, std::string>()};
};

TEST_F(MomentsTest, TensorsTellTheUpdateWhateverTheirPrefix) {
  for (const char* prefix : {"", "model.", "module._orig_mod."}) {
    file_.tensors->clear();
    hold_weights(prefix, 3);
    EXPECT_EQ(steps(), (Steps{3})) << prefix;
    hold_state(3);
    EXPECT_EQ(steps(), (Steps{3})) << prefix;
    EXPECT_EQ(found()->parts[0].tensors.size(), 4U);
  }
}

TEST_F(MomentsTest, ANumberOfTheModelIsNotInTheFile) {
  for (trace::Trace& rank : bench_.run("a").ranks) {
    for (trace::Step& step : rank.steps) {
      for (trace::Record& record : step.records) {
        if (record.channel == Channel::kWeight) record.name.insert(0, "model1.");
      }
    }
  }
  for (const char* name : {"fc.bias", "fc.weight"})
    hold(std::string("critic.") + name, Channel::kWeight, std::string("model1.") + name, 3);
  EXPECT_EQ(steps(), (Steps{3}));
}

TEST_F(MomentsTest, WeightsOfTwoUpdatesAreMixed) {
  hold_weights("model.", 3);
  hold("model.fc.bias", Channel::kWeight, "fc.bias", 4);
  ASSERT_EQ(steps(), (Steps{3, 4}));
  EXPECT_TRUE(found()->is_mixed());
  EXPECT_EQ(found()->parts[0].tensors, (std::vector<std::string>{"model.fc.weight"}));
  EXPECT_EQ(found()->parts[1].tensors, (std::vector<std::string>{"model.fc.bias"}));
}

TEST_F(MomentsTest, OfTwoUpdatesThatExplainAsMuchTheLaterCounts) {
  put(bench_.run("a"), 0, 3, *run().ranks[0].find(2, Channel::kWeight, "fc.bias"));
  hold("fc.bias", Channel::kWeight, "fc.bias", 3);
  hold("fc.weight", Channel::kWeight, "fc.weight", 5);
  EXPECT_EQ(steps(), (Steps{3, 5}));
}

TEST_F(MomentsTest, ANameThatBeginsWithModelAndNoNumberStays) {
  for (trace::Trace& rank : bench_.run("a").ranks) {
    for (trace::Step& step : rank.steps) {
      for (trace::Record& record : step.records) {
        if (record.channel == Channel::kWeight) record.name = record.name == "fc.bias" ? "scale" : "model.scale";
      }
    }
  }
  hold("model.scale", Channel::kWeight, "model.scale", 3);
  hold("scale", Channel::kWeight, "scale", 3);
  EXPECT_EQ(steps(), (Steps{3}));
  (*file_.tensors)["scale"] = "averaged";
  EXPECT_FALSE(found()) << "one of two weights is unknown";
}

TEST_F(MomentsTest, AStateYoungerThanTheWeightsIsMixed) {
  hold_weights("model.", 3);
  hold_state(4);
  EXPECT_EQ(steps(), (Steps{3, 4}));
  hold_weights("best.", 2);
  EXPECT_EQ(steps(), (Steps{3, 4})) << "a further copy excuses nothing";
}

TEST_F(MomentsTest, CopiesOfOtherUpdatesAreNoMixture) {
  hold_weights("model.", 4);
  hold_state(4);
  hold_weights("best.", 2);
  ASSERT_EQ(steps(), (Steps{4}));
  EXPECT_EQ(found()->further, (Steps{2}));
  (*file_.tensors)["ema.fc.bias"] = (*file_.tensors)["ema.fc.weight"] = "averaged";
  EXPECT_EQ(steps(), (Steps{4}));
  (*file_.tensors)["ema.fc.bias"] = (*file_.tensors)["best.fc.bias"];
  EXPECT_EQ(steps(), (Steps{4})) << "an average of which one part does not move";
}

/// As of a GAN: each model has weights of its own, and the trace a number for each.
TEST_F(MomentsTest, ModelsAreParts) {
  for (trace::Trace& rank : bench_.run("a").ranks) {
    for (trace::Step& step : rank.steps) {
      for (trace::Record& record : step.records) {
        if (record.name == "fc.bias" && record.channel == Channel::kWeight) record.name = "model0.bias";
        if (record.name == "fc.weight" && record.channel == Channel::kWeight) record.name = "model1.weight";
      }
    }
  }
  hold("G.bias", Channel::kWeight, "model0.bias", 3);
  hold("D.weight", Channel::kWeight, "model1.weight", 3);
  EXPECT_EQ(steps(), (Steps{3}));
  hold("best.D.weight", Channel::kWeight, "model1.weight", 2);
  hold("best.G.bias", Channel::kWeight, "model0.bias", 2);
  EXPECT_EQ(steps(), (Steps{3})) << "further copies";
  file_.tensors->erase("best.D.weight");
  file_.tensors->erase("best.G.bias");
  hold("D.weight", Channel::kWeight, "model1.weight", 4);
  EXPECT_EQ(steps(), (Steps{3, 4}));
}

TEST_F(MomentsTest, WeightsThatDoNotMoveAreOfAllUpdates) {
  for (trace::Trace& rank : bench_.run("a").ranks) {
    const trace::Record still = *rank.find(0, Channel::kWeight, "fc.bias");
    for (std::int64_t step = 1; step < 8; ++step) put(bench_.run("a"), rank.rank, step, still);
  }
  hold_weights("", 5);
  hold_state(5);
  EXPECT_EQ(steps(), (Steps{5}));
}

TEST_F(MomentsTest, AStateAloneTells) {
  hold_state(3);
  EXPECT_EQ(steps(), (Steps{3}));
}

TEST_F(MomentsTest, NothingIsKnownOfOtherTensors) {
  EXPECT_FALSE(found());
  (*file_.tensors)["model.fc.bias"] = (*file_.tensors)["model.fc.weight"] = "cast";
  EXPECT_FALSE(found());
  hold("model.fc.bias", Channel::kWeight, "fc.bias", 3);
  EXPECT_FALSE(found()) << "another weight is not the run's";
  hold_weights("model.", 7);
  EXPECT_FALSE(found()) << "no file holds what comes after it";
  file_.tensors.reset();
  EXPECT_FALSE(found());
}

/// Losses and counters of Adam are numbers that chance makes equal.
TEST_F(MomentsTest, NumbersThatStandAloneProveNothing) {
  for (trace::Trace& rank : bench_.run("a").ranks) {
    for (std::int64_t step = 0; step < 8; ++step)
      step_at(bench_.run("a"), rank.rank, step)
          .records.push_back(floats(Channel::kOptimizer, "fc.bias.step", {static_cast<float>(step + 1)}));
  }
  hold_weights("model.", 4);
  hold_state(4);
  hold("step", Channel::kOptimizer, "fc.bias.step", 1);
  EXPECT_EQ(steps(), (Steps{4}));
}

}  // namespace
}  // namespace lockstep::test
