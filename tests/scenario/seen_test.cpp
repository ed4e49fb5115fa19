// Recipes of programs, as far as their recorders saw them.
#include <gtest/gtest.h>

#include "harness/scenario/seen_recipe.h"

#include "tests/scenario/loading.h"

namespace lockstep::scenario::test {
namespace {

/// The header's "seen", as python/lockstep/_facts.py writes it of a tutorial's training.
Json seen_of_a_tutorial() {
  return {{"batch", {{"per_rank", 8}, {"drop_last", false}}},
          {"sampler", {{"class", "DistributedSampler"}, {"kind", "distributed"}, {"shuffle", false}, {"seed", 3}}},
          {"ddp", {{"wrap", true}, {"bucket_mb", 25.0}, {"broadcast_buffers", false}, {"comm_hook", nullptr}}},
          {"optimizer",
           {{{"class", "SGD"},
             {"kind", "sgd"},
             {"groups", {{{"lr", 0.1}, {"momentum", 0.9}, {"foreach", nullptr}, {"parameters", {"a"}}}}}}}}};
}

Variant program(const Json& promises = Json::object()) {
  return load({{"name", "own"},
               {"description", "A program."},
               {"program", {{"command", {"python"}}}},
               {"promises", promises},
               {"checks", {{{"that", "finishes"}}}}})
      .variants.at(0);
}

TEST(Seen, CompletesARecipeAndPromisesNothing) {
  Variant variant = program();
  take_seen(variant, seen_of_a_tutorial(), {{"micro_batches", 2}, {"seen.clip_norm", 0.5}});
  EXPECT_EQ(variant.train.sampler.kind, recipe::SamplerKind::kDistributed);
  EXPECT_EQ(variant.train.sampler.options.at("seed"), 3);
  EXPECT_EQ(variant.train.optimizer.kind, recipe::OptimizerKind::kSgd);
  EXPECT_EQ(variant.train.optimizer.options.at("momentum"), 0.9);
  EXPECT_EQ(variant.train.batch.rank_size(4), 16) << "two micro-batches of 8";
  EXPECT_EQ(variant.train.batch.micro_size(4), 8);
  EXPECT_EQ(variant.train.gradient.clip_norm, 0.5);
  EXPECT_FALSE(variant.train.ddp.broadcast_buffers);
  for (const char* part : {"sampler", "optimizer", "batch"})
    EXPECT_FALSE(variant.knows(part)) << "a check would hold a mistake to itself: " << part;
}

TEST(Seen, APromiseStands) {
  Variant variant = program({{"batch", {{"global", 64}}}, {"sampler", {{"kind", "none"}}}});
  take_seen(variant, seen_of_a_tutorial(), {});
  EXPECT_EQ(variant.train.batch.rank_size(4), 16);
  EXPECT_EQ(variant.train.sampler.kind, recipe::SamplerKind::kNone);
  Variant own = load(minimal()).variants.at(0);
  take_seen(own, seen_of_a_tutorial(), {});
  EXPECT_EQ(own.train.batch.rank_size(1), load(minimal()).variants[0].train.batch.rank_size(1));
}

TEST(Seen, IgnoresPartsThatHaveNoWordOrAreDamaged) {
  for (const Json& seen : {Json(), Json(3), Json{{"sampler", {{"kind", "MySampler"}}}}, Json{{"optimizer", {3}}},
                           Json{{"batch", 8}}, Json{{"optimizer", {{{"kind", "sgd"}, {"groups", {{{"lr", "high"}}}}}}}},
                           Json{{"batch", {{"per_rank", -1}}}}, Json{{"ddp", {{"wrap", 3}}}}}) {
    Variant variant = program();
    EXPECT_NO_THROW(take_seen(variant, seen, {})) << seen;
    EXPECT_EQ(variant.train.sampler.kind, recipe::SamplerKind::kUnknown) << seen;
    EXPECT_EQ(variant.train.optimizer.kind, recipe::OptimizerKind::kUnknown) << seen;
    EXPECT_TRUE(recipe::base_learning_rates(variant.train, 2).empty()) << "of an optimizer that is not known";
    EXPECT_EQ(variant.train.batch.rank_size(1), 1) << seen;
  }
}

}  // namespace
}  // namespace lockstep::scenario::test
