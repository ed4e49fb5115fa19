// Calls and samples of a recorded program: each mistake breaks its law with its cause, and what may be meant so breaks
// none.
#include <functional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "harness/laws/law.h"

#include "tests/support/tiny/tiny_trace.h"

namespace lockstep::laws {
namespace {

using trace::Channel;
using trace::Record;
using ChangeRecords = std::function<void(std::int64_t step, std::int64_t rank, std::vector<Record>& records)>;

constexpr std::int64_t kSteps = 12, kStepsOfPass = 4;  ///< updates
constexpr std::int64_t kBatch = 3;

using Inputs = std::function<float(std::int64_t rank, std::int64_t id)>;

float one_content(std::int64_t, std::int64_t id) { return static_cast<float>(id); }

/// A training of two ranks that a Python recorder saw: three epochs of four updates, clipped in each, and a schedule
/// that moves once an update. `change` spoils the records of an update.
trace::RunTrace recorded(const ChangeRecords& change = {}, Json seen = Json::object(),
                         const Inputs& inputs = one_content) {
  Json header = {{"recorder", "python"}, {"framework", Json::array()}};
  header["seen"] = {{"ddp", {{"wrap", true}}},
                    {"every", 1},
                    {"loader_workers", 0},
                    {"sampler", {{"kind", "distributed"}, {"shuffle", true}}},
                    {"optimizer", {{{"groups", {{{"parameters", {"fc.weight"}}}}}}}}};
  header["seen"].update(seen);
  trace::RunTrace run{.run = "a/0", .ranks = std::vector<trace::Trace>(2)};
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    trace::Trace& of_rank = run.ranks[static_cast<std::size_t>(rank)];
    of_rank.header = header;
    of_rank.rank = rank;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      std::vector<std::int64_t> ids;
      for (std::int64_t i = 0; i < kBatch; ++i) ids.push_back((step * 7 + step / kStepsOfPass + i) * 2 + rank);
      std::vector<Record> records = {test::integers(Channel::kSamples, "ids", ids),
                                     test::floats(Channel::kGradientLocal, "fc.weight", {3, 4}),
                                     test::floats(Channel::kGradient, "fc.weight", {3, 4}),
                                     test::floats(Channel::kGradient, "clipped fc.weight", {0.3F, 0.4F})};
      for (const auto& [name, value] :
           std::initializer_list<std::pair<const char*, std::int64_t>>{{"micro_batches", 1},
                                                                       {"epoch", step / kStepsOfPass},
                                                                       {"passes", step / kStepsOfPass},
                                                                       {"seen.clips", 1},
                                                                       {"seen.clipped", 1},
                                                                       {"seen.schedule_steps", step},
                                                                       {"seen.training", 1}})
        records.push_back(test::integer(name, value));
      records.push_back(test::number("seen.clip_norm", 0.5));
      if (change) change(step, rank, records);
      if (inputs && records[0].name == "ids") {  // each sample has one content
        std::vector<float> values;
        for (const std::int64_t id : records[0].integers) values.push_back(inputs(rank, id));
        const auto count = static_cast<std::int64_t>(values.size());
        records.push_back(test::floats(Channel::kInput, "input", values, {count, 1}));
      }
      of_rank.steps.push_back({.step = step, .records = std::move(records)});
    }
  }
  return run;
}

Record& named(std::vector<Record>& records, const std::string& name) {
  for (Record& record : records) {
    if (record.name == name) return record;
  }
  throw std::out_of_range(name);
}

void set(std::vector<Record>& records, const std::string& name, std::int64_t value) {
  std::erase_if(records, [&](const Record& record) { return record.name == name; });
  records.push_back(test::integer(name, value));
}

/// Sets an entry of the ledger in all updates from `first` on.
ChangeRecords from(std::int64_t first, const std::string& name, std::int64_t value) {
  return [=](std::int64_t step, std::int64_t, std::vector<Record>& records) {
    if (step >= first) set(records, name, value);
  };
}

const scenario::Promises& nothing_promised() {
  static const scenario::Promises kPromises{.known = std::set<std::string>{}};
  return kPromises;
}

Outcome of(const char* law, const trace::RunTrace& run) { return ask(law_named(law), run, nothing_promised()); }

void expect_broken(const char* law, const trace::RunTrace& run, std::int64_t step, const std::string& cause) {
  const Outcome outcome = of(law, run);
  ASSERT_TRUE(outcome.broken) << law << ": " << outcome.because;
  EXPECT_EQ(outcome.broken->at.step, step);
  EXPECT_EQ(outcome.broken->cause, cause);
}

TEST(Usage, AProgramMayMakeItsCallsSo) {
  EXPECT_TRUE(of("usage", recorded()).holds());
  EXPECT_TRUE(of("usage", recorded(from(0, "seen.training", 0))).holds());  // frozen from the start
  EXPECT_TRUE(of("usage", recorded(from(3, "seen.idle_updates", 1))).holds());
}

TEST(Usage, GradientsAreClearedAndClippedInOrder) {
  expect_broken("usage", recorded(from(5, "seen.left", 2)), 5, "grad.not_zeroed");
  expect_broken("usage", recorded(from(2, "seen.clipped_early", 1)), 2, "clip.before_reduce");
  expect_broken("usage", recorded([](std::int64_t step, std::int64_t, std::vector<Record>& records) {
                  std::swap(named(records, "fc.weight"), records.back());
                  if (step == 4) records.push_back(test::floats(Channel::kGradient, "unscaled fc.weight", {3, 4}));
                }),
                4, "clip.before_unscale");
}

TEST(Usage, FsdpLeavesNothingUndone) {
  expect_broken("usage", recorded(from(3, "seen.unreduced", 2)), 3, "grad.not_reduced");
  expect_broken("usage", recorded(from(4, "seen.stale", 1)), 4, "model.stale_weights");
  expect_broken("usage", recorded(from(1, "seen.unclipped", 1)), 1, "clip.no_effect");
  EXPECT_EQ(of("usage", recorded(from(3, "seen.unreduced", 2))).broken->actual,
            "2 gradients were not reduced over all ranks before their update");
}

TEST(Usage, RanksUpdateTheirPartsOfAModelAlike) {
  const auto on_rank_1 = [](const char* name) {
    return [name](std::int64_t step, std::int64_t rank, std::vector<Record>& records) {
      const bool is_other = rank == 1 && step >= 4;
      std::erase_if(records, [&](const Record& record) { return record.name == name; });
      if (step == 0 || is_other) records.push_back(test::number(name, is_other ? 0.25 : 0.5));
    };
  };
  const Json shards = {{"layout", {{"shard", 2}}}}, replicas = {{"layout", {{"replicate", 2}}}};
  for (const char* name : {"learning_rate.0", "optimizer0.weight_decay", "seen.clip_norm"}) {
    expect_broken("usage", recorded(on_rank_1(name), shards), 4, "opt.settings_of_rank");
    EXPECT_TRUE(of("usage", recorded(on_rank_1(name), replicas)).holds()) << "the law 'ranks' compares their weights";
  }
  EXPECT_TRUE(of("usage", recorded(on_rank_1("loss_denominator"), shards)).holds());
  for (const auto& [apart, is_one] : {std::pair(0x1p-18, true), std::pair(0x1p-15, false)}) {
    const ChangeRecords near = [apart = apart](std::int64_t, std::int64_t rank, std::vector<Record>& records) {
      std::erase_if(records, [](const Record& record) { return record.name == "seen.clip_norm"; });
      records.push_back(test::number("seen.clip_norm", rank == 1 ? 0.5 * (1 + apart) : 0.5));
    };
    EXPECT_EQ(of("usage", recorded(near, shards)).holds(), is_one) << apart;
  }
  EXPECT_TRUE(of("usage", recorded({}, shards)).holds());
}

TEST(Usage, RanksShareTheModelAsItIsPromised) {
  const auto judged = [](const Json& seen, std::optional<std::set<std::string>> promised) {
    const scenario::Promises promises{.known = std::set<std::string>{"layout"}, .layout = std::move(promised)};
    return ask(law_named("usage"), recorded({}, seen), promises);
  };
  const Json hsdp = {{"layout", {{"replicate", 2}, {"shard", 4}}}}, whole = {{"layout", Json::object()}};
  EXPECT_TRUE(judged(hsdp, {{"replicate", "shard"}}).holds());
  EXPECT_TRUE(judged(hsdp, std::nullopt).holds());
  EXPECT_TRUE(judged(whole, std::set<std::string>{}).holds());
  for (const auto& [seen, promised, expected, actual] :
       {std::tuple(hsdp, std::set<std::string>{"shard"}, "shard", "replicate over 2 ranks and shard over 4 ranks"),
        std::tuple(whole, std::set<std::string>{"replicate", "tensor"}, "replicate and tensor", "one whole model"),
        std::tuple(hsdp, std::set<std::string>{}, "one whole model",
                   "replicate over 2 ranks and shard over 4 ranks")}) {
    const Outcome outcome = judged(seen, promised);
    ASSERT_TRUE(outcome.broken);
    EXPECT_EQ(outcome.broken->expected, expected);
    EXPECT_EQ(outcome.broken->actual, actual);
    EXPECT_EQ(outcome.broken->cause, "model.other_layout");
  }
  const Outcome unsaid = judged(Json::object(), std::set<std::string>{"shard"});
  EXPECT_FALSE(unsaid.broken);
  EXPECT_NE(unsaid.because.find("does not say how the ranks share the model"), std::string::npos) << unsaid.because;
}

/// Weights before the first update, each put together of two ranks' parts.
trace::RunTrace with_parts(const std::vector<std::pair<std::vector<float>, bool>>& weights) {
  trace::RunTrace run = recorded();
  for (trace::Trace& rank : run.ranks) {
    trace::Step first{.step = trace::kInitialStep, .records = {}};
    for (const auto& [elements, is_repeated] : weights) {
      Record weight = test::floats(Channel::kWeight, "fc" + std::to_string(first.records.size()), elements);
      weight.is_joined = true;
      weight.is_repeated = is_repeated;
      first.records.push_back(weight);
    }
    rank.steps.insert(rank.steps.begin(), first);
  }
  return run;
}

TEST(Usage, RanksDrawShardsOfTheirOwn) {
  const std::vector<float> drawn{1, 2, 1, 2}, other{1, 2, 3, 4}, ones{1, 1, 1, 1};
  expect_broken("usage", with_parts({{drawn, true}, {ones, false}, {drawn, true}}), trace::kInitialStep,
                "init.shards_alike");
  EXPECT_TRUE(of("usage", with_parts({{drawn, true}, {other, false}, {drawn, true}})).holds()) << "it repeats itself";
  EXPECT_TRUE(of("usage", with_parts({{drawn, true}, {ones, false}})).holds()) << "one weight is no sign";
}

TEST(Usage, AnUpdateIsTakenOnceAndWithItsGradients) {
  const ChangeRecords again = [](std::int64_t step, std::int64_t, std::vector<Record>& records) {
    if (step % 2 == 1) set(records, "micro_batches", 0), set(records, "seen.reused", 1);
  };
  const ChangeRecords computed = [](std::int64_t, std::int64_t, std::vector<Record>& records) {
    set(records, "micro_batches", 0);  // equal ones, which the script assigned anew
  };
  EXPECT_TRUE(of("usage", recorded(computed)).holds());
  expect_broken("usage", recorded(again), 1, "opt.taken_twice");
  const ChangeRecords by_hand = [&](std::int64_t step, std::int64_t rank, std::vector<Record>& records) {
    again(step, rank, records);
    for (Record& record : records) {
      if (record.channel == Channel::kGradient) record.digest.low ^= static_cast<std::uint64_t>(step);
    }
  };
  EXPECT_TRUE(of("usage", recorded(by_hand)).holds());  // gradients that the script computes itself
  expect_broken("usage", recorded(from(3, "seen.clipped_late", 4)), 3, "clip.no_effect");
}

TEST(Usage, GradientsAreNotAlwaysZeros) {
  const auto zeros = [](std::int64_t first) {
    return [first](std::int64_t step, std::int64_t, std::vector<Record>& records) {
      if (step < first) return;
      std::erase_if(records, [](const Record& record) { return record.channel == Channel::kGradient; });
      records.push_back(test::floats(Channel::kGradient, "fc.weight", {0, 0}));
    };
  };
  expect_broken("usage", recorded(zeros(0)), kSteps - 1, "");
  EXPECT_TRUE(of("usage", recorded(zeros(1))).holds());
  const auto losing = [&](float loss) {
    return recorded([=](std::int64_t step, std::int64_t rank, std::vector<Record>& records) {
      zeros(0)(step, rank, records);
      records.push_back(test::scalar(Channel::kLoss, "local", loss));
    });
  };
  EXPECT_TRUE(of("usage", losing(0)).holds()) << "a hinge loss whose margins are all kept";
  expect_broken("usage", losing(1), kSteps - 1, "");
}

/// Nothing was clipped although the norm, 5, is above the threshold; below it there is nothing to clip.
TEST(Usage, ClippingGetsGradients) {
  const auto clips_nothing = [](float size) {
    return [size](std::int64_t, std::int64_t, std::vector<Record>& records) {
      std::erase_if(records, [](const Record& record) { return record.channel == Channel::kGradient; });
      records.push_back(test::floats(Channel::kGradient, "fc.weight", {3 * size, 4 * size}));
      set(records, "seen.clipped", 0);
    };
  };
  expect_broken("usage", recorded(clips_nothing(1)), 0, "clip.no_effect");
  EXPECT_TRUE(of("usage", recorded(clips_nothing(0.01F))).holds());
}

TEST(Usage, TrainingGoesOnInTrainingMode) {
  EXPECT_TRUE(of("usage", recorded(from(0, "seen.model0.training", 1))).holds());
  const ChangeRecords teacher = [](std::int64_t step, std::int64_t, std::vector<Record>& records) {
    set(records, "seen.model0.training", step < kStepsOfPass ? 1 : 0);
  };
  EXPECT_TRUE(of("usage", recorded(teacher)).holds());  // which is not trained any more
  expect_broken("usage", recorded(from(kStepsOfPass, "seen.training", 0)), kStepsOfPass, "model.evaluation_mode");
}

TEST(Usage, AnOptimizerHoldsWhatIsTrained) {
  const ChangeRecords idle = [](std::int64_t, std::int64_t, std::vector<Record>& records) {
    set(records, "seen.idle_updates", 1);
    std::erase_if(records, [](const Record& record) { return record.channel == Channel::kGradient; });
  };
  expect_broken("usage", recorded(idle), kSteps - 1, "");
  EXPECT_TRUE(of("usage", recorded(from(0, "seen.idle_updates", 1))).holds());  // another optimizer has gradients
  const ChangeRecords moves = [&](std::int64_t step, std::int64_t rank, std::vector<Record>& records) {
    idle(step, rank, records);
    records.push_back(test::floats(Channel::kWeight, "fc.weight", {static_cast<float>(step)}));
  };
  EXPECT_TRUE(of("usage", recorded(moves)).holds());  // it computes its gradients itself
  const Json other = {{"optimizer", {{{"groups", {{{"parameters", {"0"}}}}}}}}};
  expect_broken("usage", recorded(idle, other), kSteps - 1, "opt.no_effect");
}

TEST(Usage, OneScheduleStepsOnceForEachUpdate) {
  const ChangeRecords twice = [](std::int64_t step, std::int64_t, std::vector<Record>& records) {
    set(records, "seen.schedule_steps", 2 * step);
  };
  const ChangeRecords by_two = [&](std::int64_t step, std::int64_t rank, std::vector<Record>& records) {
    twice(step, rank, records);
    set(records, "seen.schedules", 2);
  };
  expect_broken("usage", recorded(twice), 1, "lr.schedule_rate");
  EXPECT_TRUE(of("usage", recorded(by_two)).holds());
  EXPECT_TRUE(of("usage", recorded(twice, {{"every", 2}})).holds());
  const auto by_batch = [](std::int64_t batches) {
    return [batches](std::int64_t step, std::int64_t, std::vector<Record>& records) {
      set(records, "seen.schedule_steps", batches * step);
      set(records, "micro_batches", batches);
    };
  };
  EXPECT_TRUE(of("usage", recorded(by_batch(3))).holds());
  expect_broken("usage", recorded(by_batch(2)), 1, "lr.schedule_rate");  // as many as ranks
  trace::RunTrace accelerated = recorded(twice);
  for (trace::Trace& rank : accelerated.ranks) rank.header["framework"] = {"accelerate 1.15"};
  EXPECT_TRUE(of("usage", accelerated).holds());
}

TEST(Usage, AScheduleMovesWithinThreeEpochs) {
  const ChangeRecords never = from(0, "seen.schedule_steps", 0);
  expect_broken("usage", recorded(never), kSteps - 1, "");
  const ChangeRecords one_epoch = [&](std::int64_t step, std::int64_t rank, std::vector<Record>& records) {
    never(step, rank, records);
    set(records, "passes", 7);  // a resumed one
  };
  EXPECT_TRUE(of("usage", recorded(one_epoch)).holds());
}

TEST(Shares, RanksTakeSamplesOfTheirOwn) {
  EXPECT_TRUE(of("shares", recorded()).holds());
  const ChangeRecords alike = [](std::int64_t step, std::int64_t, std::vector<Record>& records) {
    records[0] = test::integers(Channel::kSamples, "ids", {3 * step, 3 * step + 1, 3 * step + 2});
  };
  expect_broken("shares", recorded(alike), 0, "data.not_sharded");
  EXPECT_TRUE(of("shares", recorded(alike, {{"ddp", {{"wrap", false}}}})).holds());
}

/// Where some ranks take the same, the sampler does not ignore ranks.
TEST(Shares, SomeRanksOnlyTakeTheSame) {
  for (const bool is_told : {false, true}) {
    trace::RunTrace run = recorded();
    run.ranks.push_back(run.ranks[0]);
    run.ranks[2].rank = 2;
    if (is_told) run.ranks[2].header["seen"]["sampler"].update({{"num_replicas", 2}, {"rank", 0}});
    expect_broken("shares", run, 0, is_told ? "data.sampler_options" : "");
  }
}

/// Ranks that split tensors compute one share of the batch together.
TEST(Shares, RanksOfOneShareTakeTheSameSamples) {
  const ChangeRecords alike = [](std::int64_t step, std::int64_t, std::vector<Record>& records) {
    records[0] = test::integers(Channel::kSamples, "ids", {3 * step, 3 * step + 1, 3 * step + 2});
  };
  const auto together = [](trace::RunTrace run) {
    for (trace::Trace& rank : run.ranks) rank.header["data_parallel"] = {{"rank", 0}, {"size", 1}};
    return of("shares", run);
  };
  EXPECT_TRUE(together(recorded(alike)).holds());
  const Outcome apart = together(recorded());
  ASSERT_TRUE(apart.broken);
  EXPECT_EQ(apart.broken->at.step, 0);
  EXPECT_EQ(apart.broken->at.rank, 1);
  EXPECT_NE(apart.broken->actual.find("compute one share of the batch together, but take other samples"),
            std::string::npos)
      << apart.broken->actual;
  const auto cause_with = [&](std::int64_t replicas, std::int64_t rank) {
    const Json sampler = {{"kind", "distributed"}, {"shuffle", true}, {"num_replicas", replicas}, {"rank", rank}};
    return together(recorded({}, {{"sampler", sampler}})).broken->cause;
  };
  EXPECT_EQ(cause_with(2, 0), "data.sampler_options");
  EXPECT_EQ(cause_with(1, 1), "data.sampler_options");
  EXPECT_EQ(cause_with(1, 0), "") << "as the ranks' shares are";
}

/// A program that gives each rank a part of the data has ids of its own on each rank.
TEST(Shares, OneIdMayBeAnotherSampleOnAnotherRank) {
  const auto of_parts = [](std::int64_t rank, std::int64_t id) { return static_cast<float>(2 * id + rank); };
  const auto labels = [](std::int64_t, std::int64_t id) { return static_cast<float>(id % 2); };
  const ChangeRecords alike = [](std::int64_t step, std::int64_t, std::vector<Record>& records) {
    records[0] = test::integers(Channel::kSamples, "ids", {3 * step, 3 * step + 1, 3 * step + 2});
  };
  const ChangeRecords shuffled = [](std::int64_t step, std::int64_t rank, std::vector<Record>& records) {
    const std::int64_t at = 3 * (step % kStepsOfPass), first = rank == 0 ? at : 9 - at;
    records[0] = test::integers(Channel::kSamples, "ids", {first, first + 1, first + 2});
  };
  for (const ChangeRecords& change : {alike, shuffled}) {
    EXPECT_TRUE(of("shares", recorded(change)).broken);
    EXPECT_TRUE(of("shares", recorded(change, Json::object(), of_parts)).holds());
    for (const Inputs& inputs : {Inputs(labels), Inputs()}) {
      const Outcome untold = of("shares", recorded(change, Json::object(), inputs));
      EXPECT_FALSE(untold.broken || untold.holds());
      EXPECT_NE(untold.because.find("do not show whether those are the same samples"), std::string::npos);
    }
    EXPECT_TRUE(of("shares", recorded(change, {{"ddp", {{"wrap", false}, {"sharded", true}}}})).broken);
  }
}

/// Each rank takes samples once, and `common` of them are another rank's, too. A round holds 10.
TEST(Shares, RanksTakeWhatNoOtherRankTakes) {
  const auto overlapping = [](std::int64_t common) {
    return [common](std::int64_t step, std::int64_t rank, std::vector<Record>& records) {
      std::vector<std::int64_t> ids;
      constexpr std::int64_t kOwnBatch = 5;
      const std::int64_t of_rank = kStepsOfPass * kOwnBatch;
      for (std::int64_t i = 0; i < kOwnBatch; ++i)
        ids.push_back(rank * (of_rank - common) +
                      (rank == 0 ? step % kStepsOfPass : kStepsOfPass - 1 - step % kStepsOfPass) * kOwnBatch + i);
      records[0] = test::integers(Channel::kSamples, "ids", ids);
    };
  };
  const Json other = {{"sampler", {{"kind", "subset_random"}}}};
  EXPECT_TRUE(of("shares", recorded(overlapping(10), other)).holds());
  expect_broken("shares", recorded(overlapping(11), other), 0, "data.not_sharded");
  expect_broken("shares", recorded(overlapping(11)), 0, "data.permutation_rank_dependent");
  EXPECT_TRUE(of("shares", recorded(overlapping(11), {{"sampler", {{"kind", "RASampler"}}}})).holds());
}

TEST(Shares, AShuffledEpochHasAnOrderOfItsOwn) {
  const ChangeRecords again = [](std::int64_t step, std::int64_t rank, std::vector<Record>& records) {
    const std::int64_t first = 6 * (step % kStepsOfPass) + rank;
    records[0] = test::integers(Channel::kSamples, "ids", {first, first + 2, first + 4});
    set(records, "epoch", 0);
  };
  expect_broken("shares", recorded(again), kStepsOfPass, "data.epoch_not_advanced");
  EXPECT_TRUE(of("shares", recorded(again, {{"sampler", {{"kind", "distributed"}, {"shuffle", false}}}})).holds());
  const ChangeRecords two_passes = [&](std::int64_t step, std::int64_t rank, std::vector<Record>& records) {
    again(step, rank, records);
    set(records, "epoch", step / (2 * kStepsOfPass));
  };
  EXPECT_TRUE(of("shares", recorded(two_passes)).holds());  // of each epoch that the sampler is told
}

TEST(Shares, AStreamGivesEachSampleOnce) {
  const ChangeRecords twice = [](std::int64_t step, std::int64_t rank, std::vector<Record>& records) {
    const std::int64_t first = 100 * (step / kStepsOfPass) + 6 * (step % kStepsOfPass / 2) + rank;
    std::vector<std::int64_t> items;
    for (std::int64_t i = 0; i < 8; ++i) items.push_back(first + 20 * i);
    records[0] = test::integers(Channel::kSamples, "items", items);
  };
  expect_broken("shares", recorded(twice, {{"loader_workers", 2}}), 0, "");
  EXPECT_TRUE(of("shares", recorded(twice)).holds());
}

}  // namespace
}  // namespace lockstep::laws
