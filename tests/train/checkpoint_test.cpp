#include "harness/train/loop/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/hash.h"

#include "tests/support/support.h"
#include "tests/train/refused.h"

namespace lockstep::train {
namespace {

Checkpoint sample() {
  const at::Tensor rng = at::Generator(at::detail::getDefaultCPUGenerator()).get_state();
  return {.world_size = 1,
          .updates = 7,
          .samples_taken = 70,
          .skipped = 2,
          .rates = {.steps = 7,
                    .rates = {{.initial = 0.1, .current = 0.1 * 0.3}, {.initial = 0.5, .current = 0.25}},
                    .schedule = {{"bad_steps", 1}}},
          .position = {.epoch = 2, .position = 10, .batches = 6, .epoch_rng = rng},
          .buckets = {{1, 0}},
          .weights = {{"w", at::arange(6, at::kFloat).view({2, 3}).t()}, {"b", at::ones({2}, at::kDouble)}},
          .recipe = {.kind = recipe::OptimizerKind::kSgd,
                     .options = {{"lr", 0.1}, {"groups", {{{"parameters", "b"}, {"lr", 0.5}}}}}},
          .optimizer = {{"w.momentum_buffer", at::full({3, 2}, 0.25F)}},
          .buffers = {{"mean", at::full({2}, 0.5F)}},
          .rng = rng};
}

template <typename T>
T read_as(const std::string& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

constexpr char kRankFile[] = "rank0.safetensors";

/// Begin and end of a tensor's bytes in a safetensors file.
std::pair<std::size_t, std::size_t> extent_of(const std::string& file, const std::string& tensor) {
  const std::size_t header = 8 + read_as<std::uint64_t>(file, 0);
  const Json offsets = parse_json(file.substr(8, header - 8), kRankFile).at(tensor).at("data_offsets");
  return {header + offsets.at(0).get<std::size_t>(), header + offsets.at(1).get<std::size_t>()};
}

/// A checkpoint in a folder of its own, written by one rank.
class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() : folder_(scratch_.path() / "checkpoint") {
    launch::ProgressWriter progress(scratch_.path() / "rank0.progress");
    Collective alone({.rank = 0, .world_size = 1}, progress, *make_device("cpu", {}), make_reduction("ring"));
    save_checkpoint(folder_, sample(), 0, alone);
  }

  /// The checkpoint must be refused as damaged, with `part` named.
  void expect_damage(const std::string& part) const {
    try {
      load_checkpoint(folder_, 0, 1, true);
      ADD_FAILURE() << part << " was accepted";
    } catch (const DamagedFile& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "no DamagedFile: " << error.what();
    }
  }

  void seal(Json state) const {
    state.erase("seal");
    state["seal"] = sha256(state.dump());
    replace_file(folder_ / "state.json", state.dump());
  }

  /// Another content of rank 0's file, with hash and seal as if it had been saved so.
  void replace_rank_file(const std::string& content) const {
    replace_file(folder_ / kRankFile, content);
    Json state = parse_json(read_file(folder_ / "state.json"), "state.json");
    state["sha256"][kRankFile] = sha256(content);
    seal(state);
  }

  test::Scratch scratch_;
  std::filesystem::path folder_;
};

TEST_F(CheckpointTest, RoundTripKeepsEveryBit) {
  const Checkpoint expected = sample(), loaded = load_checkpoint(folder_, 0, 1, /*per_rank=*/true);
  EXPECT_EQ(loaded.updates, 7);
  EXPECT_EQ(loaded.samples_taken, 70);
  EXPECT_EQ(loaded.skipped, 2);
  EXPECT_EQ(loaded.rates.steps, 7);
  ASSERT_EQ(loaded.rates.rates.size(), 2U);
  EXPECT_EQ(loaded.rates.rates[0].current, expected.rates.rates[0].current);
  EXPECT_EQ(loaded.rates.rates[1].initial, 0.5);
  EXPECT_EQ(loaded.rates.schedule, expected.rates.schedule);
  EXPECT_EQ(loaded.position.batches, 6);
  EXPECT_EQ(loaded.buckets, expected.buckets);
  EXPECT_EQ(loaded.position.epoch, 2);
  EXPECT_EQ(loaded.position.position, 10);
  EXPECT_TRUE(at::equal(loaded.rng, expected.rng));
  ASSERT_EQ(loaded.buffers.size(), 1U);
  EXPECT_TRUE(loaded.buffers[0].name == "mean" && at::equal(loaded.buffers[0].tensor, expected.buffers[0].tensor));
  ASSERT_EQ(loaded.weights.size(), 2U);
  EXPECT_TRUE(at::equal(loaded.weights[0].tensor, expected.weights[0].tensor));
  EXPECT_EQ(loaded.weights[1].tensor.scalar_type(), at::kDouble);
  EXPECT_TRUE(at::equal(loaded.optimizer[0].tensor, expected.optimizer[0].tensor));
}

TEST_F(CheckpointTest, AnyChangedFileIsNamed) {
  for (const char* name : {"weights.safetensors", "optimizer.safetensors", "rank0.safetensors"}) {
    const std::string whole = read_file(folder_ / name);
    std::string damaged = whole;
    damaged.back() = static_cast<char>(damaged.back() ^ 1);
    replace_file(folder_ / name, damaged);
    expect_damage(name);
    replace_file(folder_ / name, whole);
  }
}

TEST_F(CheckpointTest, AnyMissingFileIsNamed) {
  for (const char* name : {"weights.safetensors", "optimizer.safetensors", "rank0.safetensors", "state.json"}) {
    const std::string whole = read_file(folder_ / name);
    std::filesystem::remove(folder_ / name);
    expect_damage(name);
    replace_file(folder_ / name, whole);
  }
}

TEST_F(CheckpointTest, AnyChangeOfTheStateIsSeen) {
  const std::string whole = read_file(folder_ / "state.json");
  const Json state = parse_json(whole, "state.json");
  const std::pair<const char*, Json> changes[] = {{"updates", 6},
                                                  {"updates", "many"},
                                                  {"position", -5},
                                                  {"position", 999},
                                                  {"epoch", 3},
                                                  {"world_size", 2},
                                                  {"samples_taken", 71},
                                                  {"learning_rates", Json::array()},
                                                  {"buckets", {{0, 1}}},
                                                  {"buckets", {{0, 7}}},
                                                  {"format", "lockstep.checkpoint/of another version"},
                                                  {"sha256", Json::object()},
                                                  {"seal", nullptr},
                                                  {"new", 1}};
  for (const auto& [key, value] : changes) {
    SCOPED_TRACE(key);
    Json changed = state;
    changed[key] = value;
    replace_file(folder_ / "state.json", changed.dump());
    expect_damage("state.json");
  }
  for (const char* key : {"seal", "updates", "sha256"}) {
    Json changed = state;
    changed.erase(key);
    replace_file(folder_ / "state.json", changed.dump());
    expect_damage("state.json");
  }
  for (const std::string& text : {whole.substr(0, whole.size() / 2), std::string("[]"), std::string()}) {
    replace_file(folder_ / "state.json", text);
    expect_damage("state.json");
  }
}

TEST_F(CheckpointTest, AStateNestedTooDeeplyIsDamage) {
  const std::string open(300'000, '['), close(300'000, ']');
  replace_file(folder_ / "state.json", R"({"seal":"x","a":)" + open + close + "}");
  expect_damage("state.json");
}

TEST_F(CheckpointTest, ImpossibleStatesAreDamageWhateverTheirSeal) {
  const Json state = parse_json(read_file(folder_ / "state.json"), "state.json");
  const std::pair<const char*, Json> changes[] = {
      {"/updates", -1},
      {"/updates", 1e300},
      {"/updates", "7"},
      {"/position", -5},
      {"/world_size", 0},
      {"/world_size", 1 << 20},
      {"/epoch", -1},
      {"/samples_taken", -1},
      {"/schedule/steps", std::int64_t{1} << 60},
      {"/schedule/state", {{"best_bits", "0.5"}}},
      {"/buckets", {{0, 0}}},
      {"/buckets", {{1, 2}}},
      {"/buckets", {{-1}}},
      {"/buckets", {{0, 1}, Json::array()}},
      {"/buckets", {{0, std::int64_t{1} << 60}}},
      {"/learning_rates", Json::array()},
      {"/learning_rates/0/current_bits", "?"},
      {"/learning_rates/0/current_bits", "7ff8000000000000"},
      {"/learning_rates/2",
       {{"readable", "1"}, {"current_bits", std::string(16, '0')}, {"initial_bits", std::string(16, '0')}}},
      {"/optimizer", "sgd"},
      {"/optimizer/kind", "sdg"},
      {"/optimizer/lr", "0.1"},
      {"/optimizer/betas", {0.9, 0.999}},
      {"/optimizer/groups", 5},
      {"/sha256", Json::object()},
      {"/sha256", nullptr},
      {"/sha256/..~1elsewhere", std::string(64, '0')}};
  for (const auto& [pointer, value] : changes) {
    SCOPED_TRACE(pointer);
    Json changed = state;
    changed[Json::json_pointer(pointer)] = value;
    seal(changed);
    const std::string key = std::string(pointer).substr(1, std::string(pointer).find('/', 1) - 1);
    expect_damage(key);
  }
  for (const Json& other : {Json(), Json::array(), Json::object(), Json("text"), Json(3)}) {
    replace_file(folder_ / "state.json", other.dump());
    expect_damage("no seal");
  }
}

TEST_F(CheckpointTest, ImpossiblePlacesInTheDataAreDamageWhateverTheirHash) {
  const std::string whole = read_file(folder_ / kRankFile);
  const std::size_t place = extent_of(whole, "data.place").first;
  EXPECT_EQ(read_as<std::int64_t>(whole, place), 2);       // the epoch
  EXPECT_EQ(read_as<std::int64_t>(whole, place + 8), 10);  // and the position of sample()
  constexpr std::int64_t kFar = (std::int64_t{1} << 53) + 1;
  const std::pair<std::size_t, std::int64_t> impossible[] = {{0, -2}, {0, kFar}, {1, -1}, {1, kFar}, {2, -1},
                                                             {3, 2},  {3, -1},   {4, -1}, {4, kFar}};
  for (const auto& [i, value] : impossible) {
    SCOPED_TRACE(std::to_string(i) + ": " + std::to_string(value));
    std::string changed = whole;
    std::memcpy(changed.data() + place + i * sizeof(value), &value, sizeof(value));
    replace_rank_file(changed);
    expect_damage("place in the data");
  }
}

TEST_F(CheckpointTest, AStateThatNoGeneratorCanHaveIsDamageWhateverItsHash) {
  const std::string whole = read_file(folder_ / kRankFile);
  for (const char* name : {"rng.now", "rng.epoch"}) {
    const auto [begin, end] = extent_of(whole, name);
    std::string changed = whole;
    std::fill(changed.begin() + static_cast<std::ptrdiff_t>(begin), changed.begin() + static_cast<std::ptrdiff_t>(end),
              '\xff');
    replace_rank_file(changed);
    expect_damage(kRankFile);
  }
}

TEST_F(CheckpointTest, AnotherWorldSizeIsRefusedForWhatBelongsToRanks) {
  EXPECT_THROW(load_checkpoint(folder_, 0, 2, /*per_rank=*/true), InputError);
  EXPECT_NO_THROW(load_checkpoint(folder_, 1, 2, /*per_rank=*/false));
}

TEST_F(CheckpointTest, WhatDoesNotFitIsNamedWithItsOrigin) {
  const Checkpoint loaded = load_checkpoint(folder_, 0, 1, /*per_rank=*/true);
  const std::vector<NamedTensor> model{{"w", at::zeros({7})}, {"b", at::zeros({2}, at::kDouble)}};
  expect_refused([&] { take_from(loaded, [&] { copy_weights(loaded.weights, model); }); }, {folder_.string(), ", w"});
  expect_refused([&] { take_from(loaded, [&] { copy_weights(loaded.weights, {model[1]}); }); },
                 {folder_.string(), "model lacks", "w"});
}

TEST(CopyWeights, NamesWhatDoesNotFit) {
  const std::vector<NamedTensor> model{{"a", at::zeros({2})}, {"b", at::zeros({3})}};
  EXPECT_THROW(copy_weights({{"a", at::ones({2})}, {"b", at::ones({4})}}, model), InputError);
  EXPECT_THROW(copy_weights({{"a", at::ones({2})}, {"b", at::ones({3})}, {"c", at::ones({1})}}, model), InputError);
  copy_weights({{"b", at::ones({3})}, {"a", at::ones({2})}}, model);
  EXPECT_TRUE(at::equal(model[1].tensor, at::ones({3})));
}

}  // namespace
}  // namespace lockstep::train
