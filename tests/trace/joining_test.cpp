// read_run joins the shards of all ranks.
#include "harness/trace/joining.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/trace/additive_digest.h"
#include "harness/trace/line.h"
#include "harness/trace/reader.h"

#include "tests/support/support.h"
#include "tests/trace/boxes.h"
#include "tests/trace/samples.h"

namespace lockstep::trace {
namespace {

using lockstep::test::Scratch;
using Extents = std::vector<std::int64_t>;

const Extents kShape{7, 6};

std::vector<std::byte> elements_of(float offset = 0) {
  std::vector<float> elements(count_of(kShape));
  std::iota(elements.begin(), elements.end(), offset);
  const auto bytes = std::as_bytes(std::span(elements));
  return {bytes.begin(), bytes.end()};
}

test::Box box_of(Extents offset, Extents shape) {
  return {.shard = {.whole = kShape,
                    .offset = std::move(offset),
                    .mesh = "dp_shard=2",
                    .placements = "S(0)",
                    .coordinate = {0}},
          .shape = std::move(shape)};
}

const test::Box kUpper = box_of({0, 0}, {4, 6}), kLower = box_of({4, 0}, {3, 6}), kNone = box_of({0, 0}, {0, 6}),
                kWhole = box_of({0, 0}, kShape);

/// A rank's record of a weight, as its recorder makes it.
Record record_of(const test::Box& box, const std::vector<std::byte>& whole = elements_of()) {
  const std::vector<std::byte> part = test::cut(box, whole, sizeof(float));
  Record record{.channel = Channel::kWeight, .name = "fc.weight", .dtype = DType::kFloat32, .shape = box.shape};
  record.digest = digest_of(DType::kFloat32, box.shape, part);
  record.sum = additive_digest_of(DType::kFloat32, box.shard, box.shape, part);
  record.sketch = sketch_of(DType::kFloat32, box.shard, box.shape, part);
  record.norm = record.sketch->norm;
  record.max_abs = record.sketch->max_abs;
  for (const Sampled& sampled : sampled_in(box.shard, box.shape))
    record.elements.push_back(sample_of(DType::kFloat32, std::span(part).subspan(sampled.in_box * 4, 4))[0]);
  record.shard = box.shard;
  return record;
}

RunTrace run_of(const std::vector<Record>& records) {
  RunTrace run{.run = "a"};
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    Trace trace{.header = Json::object()};
    trace.rank = static_cast<std::int64_t>(rank);
    trace.world_size = static_cast<std::int64_t>(records.size());
    trace.origin = "rank" + std::to_string(rank) + ".jsonl";
    trace.complete = true;
    trace.steps.push_back({.step = 3, .records = {records[rank]}});
    run.ranks.push_back(std::move(trace));
  }
  return run;
}

RunTrace joined(const std::vector<Record>& records) {
  RunTrace run = run_of(records);
  join_shards(run);
  return run;
}

const Record& of_rank(const RunTrace& run, std::size_t rank) { return run.ranks[rank].steps[0].records.at(0); }

/// A part of a weight whose two parts hold these elements.
Record part_of(std::int64_t first, const std::vector<float>& elements) {
  const test::Box box{.shard = {.whole = {4}, .offset = {first}, .mesh = "dp_shard=2", .placements = "S(0)"},
                      .shape = {2}};
  std::vector<float> whole(4);
  std::copy(elements.begin(), elements.end(), whole.begin() + first);
  const auto bytes = std::as_bytes(std::span(whole));
  return record_of(box, {bytes.begin(), bytes.end()});
}

TEST(Joining, PartsThatRepeatEachOtherAreTold) {
  EXPECT_TRUE(of_rank(joined({part_of(0, {1, 2}), part_of(2, {1, 2})}), 1).is_repeated);
  EXPECT_FALSE(of_rank(joined({part_of(0, {1, 2}), part_of(2, {2, 1})}), 1).is_repeated);
  EXPECT_FALSE(of_rank(joined({part_of(0, {1, 1}), part_of(2, {1, 1})}), 1).is_repeated) << "one number everywhere";
}

/// Tensor parallelism splits a gradient in two; each share of the batch has another one. The ranks stand in no order.
TEST(Joining, EachShareOfTheBatchHasAGradientOfItsOwn) {
  RunTrace run = run_of({part_of(0, {1, 2}), part_of(0, {5, 6}), part_of(2, {7, 8}), part_of(2, {3, 4})});
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    run.ranks[rank].header["data_parallel"] = {{"rank", rank == 1 || rank == 2 ? 1 : 0}, {"size", 2}};
    run.ranks[rank].steps[0].records[0].channel = Channel::kGradientLocal;
  }
  join_shards(run);
  EXPECT_EQ(of_rank(run, 0).sum, of_rank(run, 3).sum);
  EXPECT_EQ(of_rank(run, 1).sum, of_rank(run, 2).sum);
  EXPECT_NE(of_rank(run, 0).sum, of_rank(run, 1).sum);
  EXPECT_NEAR(*of_rank(run, 0).norm, std::sqrt(30.0), 1e-9);
}

std::string refusal(const std::vector<Record>& records) {
  RunTrace run = run_of(records);
  try {
    join_shards(run);
  } catch (const DamagedFile& error) {
    return error.problem().what + " | " + error.problem().where + " | " + error.problem().actual;
  }
  ADD_FAILURE() << "not refused";
  return "";
}

TEST(Joining, UnevenShardsMakeTheWholeTensor) {
  const std::vector<std::byte> whole = elements_of();
  const RunTrace run = joined({record_of(kUpper), record_of(kLower), record_of(kNone)});
  for (const std::size_t rank : {0, 1, 2}) {
    const Record& record = of_rank(run, rank);
    EXPECT_EQ(record.shape, kShape);
    EXPECT_FALSE(record.shard);
    EXPECT_EQ(*record.sum, additive_digest_of(whole));
    EXPECT_EQ(record.elements, sample_of(DType::kFloat32, whole));
    const Sketch expected = sketch_of(DType::kFloat32, whole);
    EXPECT_DOUBLE_EQ(*record.norm, expected.norm);
    EXPECT_EQ(*record.max_abs, expected.max_abs);
  }
}

TEST(Joining, AJoinedTensorHasTheBitsOfAWholeOne) {
  Record whole = record_of(kWhole);
  whole.shard.reset();
  const RunTrace run = joined({record_of(kUpper), record_of(kLower)});
  EXPECT_TRUE(same_bits(&of_rank(run, 0), &whole));
  const Record other = [] {
    Record record = record_of(kWhole, elements_of(1));
    record.shard.reset();
    return record;
  }();
  EXPECT_FALSE(same_bits(&of_rank(run, 0), &other));
}

TEST(Joining, ReplicasThatDriftAreRanksThatDiffer) {
  const std::vector<std::byte> drifted = elements_of(0.5F);
  const RunTrace run =
      joined({record_of(kUpper), record_of(kLower), record_of(kUpper, drifted), record_of(kLower, drifted)});
  EXPECT_TRUE(same_bits(&of_rank(run, 0), &of_rank(run, 1)));
  EXPECT_TRUE(same_bits(&of_rank(run, 2), &of_rank(run, 3)));
  EXPECT_FALSE(same_bits(&of_rank(run, 0), &of_rank(run, 2)));
}

TEST(Joining, AWholeTensorOnEachRankKeepsItsDigest) {
  const RunTrace run = joined({record_of(kWhole), record_of(kWhole)});
  EXPECT_EQ(of_rank(run, 1).digest, digest_of(DType::kFloat32, kShape, elements_of()));
  EXPECT_FALSE(of_rank(run, 1).is_joined);
}

TEST(Joining, ElementsThatNoRankHoldsAreAFinding) {
  EXPECT_EQ(refusal({record_of(kUpper), record_of(kNone)}),
            "the shards of a tensor do not make one: elements are on no rank | rank0.jsonl, step 3, weight fc.weight | "
            "24, in rank 1: float32 [0:0, 0:6] of [7, 6]; rank 0: float32 [0:4, 0:6] of [7, 6]");
}

TEST(Joining, PartsThatOverlapAreAFinding) {
  EXPECT_EQ(refusal({record_of(kUpper), record_of(box_of({3, 0}, {4, 6}))}),
            "the shards of a tensor do not make one: two of them overlap | rank1.jsonl, step 3, weight fc.weight | "
            "float32 [0:4, 0:6] of [7, 6] and float32 [3:7, 0:6] of [7, 6]");
}

TEST(Joining, PartsOfOtherTensorsAreAFinding) {
  Record other = record_of(kLower);
  other.shard->whole = {8, 6};
  EXPECT_NE(refusal({record_of(kUpper), other}).find("they are parts of different tensors"), std::string::npos);
  Record coarse = record_of(kLower);
  coarse.dtype = DType::kBFloat16;
  EXPECT_NE(refusal({record_of(kUpper), coarse}).find("they are parts of different tensors"), std::string::npos);
}

TEST(Joining, AStepThatATornTraceLacksHasNoShards) {
  RunTrace run = run_of({record_of(kUpper), record_of(kLower)});
  run.ranks[1].complete = false;
  run.ranks[1].torn = "the file ends early";
  run.ranks[1].steps.clear();
  join_shards(run);
  EXPECT_TRUE(run.ranks[0].steps[0].records.empty());
}

/// What a file holds comes back, and what it may not hold is refused.
TEST(Joining, ALineCarriesAShard) {
  const Scratch scratch;
  const Step step{.step = 0, .records = {record_of(kLower)}};
  test::write_sample(scratch.path() / "a", test::sample_header(), {step});
  test::expect_same(read_trace(scratch.path() / "a").steps, {step});
  const Record read = read_trace(scratch.path() / "a").steps[0].records[0];
  EXPECT_EQ(read.shard, kLower.shard);
  EXPECT_EQ(read.sum, record_of(kLower).sum);
}

/// A damaged or missing record of a shard never reads as the tensor that it was.
TEST(Joining, NoneOfTenThousandDamagedShardsIsTheWholeTensor) {
  test::Random random(7);
  const std::vector<test::Box> boxes{box_of({0, 0}, {4, 3}), box_of({0, 3}, {4, 3}), box_of({4, 0}, {3, 3}),
                                     box_of({4, 3}, {3, 3})};
  std::vector<Record> sound;
  for (const test::Box& box : boxes) sound.push_back(record_of(box));
  const RunTrace expected = joined(sound);
  std::size_t refused = 0, differ = 0;
  for (int trial = 0; trial < 10'000; ++trial) {
    RunTrace run = run_of(sound);
    auto& records = run.ranks[random.below(4)].steps[0].records;
    Record& record = records[0];
    const std::size_t dimension = random.below(2);
    switch (random.below(7)) {
      case 0:
        records.clear();
        break;
      case 1:
        record.shard->offset[dimension] += random.below(2) == 0 ? 1 : -1;
        break;
      case 2:
        record.shape[dimension] += random.below(2) == 0 ? 1 : -1;
        break;
      case 3:
        record.shard->whole[dimension] += 1;
        break;
      case 4:
        record.sum->low ^= std::uint64_t{1} << random.below(64);
        break;
      case 5:
        record.sum->high ^= std::uint64_t{1} << random.below(63);
        break;
      default: {  // an element of the part
        std::vector<std::byte> bytes = elements_of();
        bytes[4 * (static_cast<std::size_t>(record.shard->offset[0]) * 6 +
                   static_cast<std::size_t>(record.shard->offset[1]))] ^= static_cast<std::byte>(1U << random.below(8));
        record = record_of({.shard = *record.shard, .shape = record.shape}, bytes);
      }
    }
    if (!records.empty() && !fits(*records[0].shard, records[0].shape)) {  // the reader of a line refuses it
      ++refused;
      continue;
    }
    try {
      join_shards(run);
    } catch (const DamagedFile&) {
      ++refused;
      continue;
    }
    for (std::size_t rank = 0; rank < 4; ++rank) {
      if (run.ranks[rank].steps[0].records.empty()) continue;
      ASSERT_FALSE(same_bits(&of_rank(run, rank), &of_rank(expected, rank))) << trial;
    }
    ++differ;
  }
  EXPECT_EQ(refused + differ, 10'000U);
  EXPECT_GT(refused, 4'000U);
  EXPECT_GT(differ, 3'000U);
}

}  // namespace
}  // namespace lockstep::trace
