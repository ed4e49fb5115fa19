#include "harness/train/loop/state_dict.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"

namespace lockstep::train {
namespace {

using recipe::KeySpec;

/// Tensors of one element, which tells them apart.
std::vector<NamedTensor> tensors(const std::vector<std::string>& names) {
  std::vector<NamedTensor> result;
  for (const std::string& name : names) result.push_back({name, at::full({1}, static_cast<double>(result.size()))});
  return result;
}

/// "model name <- place of the loaded tensor", in the model's order.
std::vector<std::string> matches(const std::vector<std::string>& loaded, const std::vector<std::string>& model,
                                 const KeySpec& keys) {
  std::vector<std::string> result;
  for (const NamedTensor& one : match_keys(tensors(loaded), tensors(model), keys))
    result.push_back(one.name + " <- " + loaded.at(static_cast<std::size_t>(one.tensor.item<double>())));
  return result;
}

using Names = std::vector<std::string>;

TEST(MatchKeys, TakesEqualNames) {
  EXPECT_EQ(matches({"b", "a"}, {"a", "b"}, {.match = recipe::KeyMatch::kExact}), (Names{"a <- a", "b <- b"}));
}

TEST(MatchKeys, StripsAPrefixThatAllNamesHave) {
  const KeySpec keys{.strip = "module.", .match = recipe::KeyMatch::kExact};
  EXPECT_EQ(match_keys(tensors({"module.a", "module.b"}), tensors({"a", "b"}), keys).size(), 2U);
  EXPECT_EQ(match_keys(tensors({"a", "b"}), tensors({"a", "b"}), keys).size(), 2U);
  EXPECT_THROW(match_keys(tensors({"module.a", "b"}), tensors({"a", "b"}), keys), InputError);
}

/// STMixer: a file of the backbone alone.
TEST(MatchKeys, PutsAPrefixBeforeEveryName) {
  const KeySpec keys{.strip = "module.", .prepend = "backbone.", .match = recipe::KeyMatch::kExact};
  EXPECT_EQ(matches({"module.a", "module.b"}, {"backbone.a", "backbone.b"}, keys),
            (Names{"backbone.a <- module.a", "backbone.b <- module.b"}));
}

TEST(MatchKeys, OfSuffixesTheLongestCounts) {
  EXPECT_EQ(matches({"weight", "fc.weight", "conv.weight"}, {"head.fc.weight", "body.conv.weight"},
                    {.match = recipe::KeyMatch::kSuffix, .strict = false}),
            (Names{"head.fc.weight <- fc.weight", "body.conv.weight <- conv.weight"}));
}

TEST(MatchKeys, StrictNamesWhatIsMissingOrLeftOver) {
  const auto problem = [](const Names& loaded, const Names& model) {
    try {
      match_keys(tensors(loaded), tensors(model), {.match = recipe::KeyMatch::kExact});
    } catch (const InputError& error) {
      return error.problem().what + "; " + error.problem().expected + "; " + error.problem().actual;
    }
    return std::string();
  };
  EXPECT_EQ(problem({"a"}, {"a", "b"}),
            "the checkpoint lacks tensors of the model; of the model: b; all others of the file are matched");
  EXPECT_EQ(problem({"a", "c"}, {"a"}),
            "the checkpoint has tensors that the model lacks; of the model: a; in the file: c");
  EXPECT_EQ(problem({"module.a", "module.b"}, {"a", "b"}),
            "the checkpoint lacks tensors of the model; of the model: a, b; in the file: module.a, module.b");
  EXPECT_EQ(problem({}, {"a"}),
            "the checkpoint lacks tensors of the model; of the model: a; no tensor is left in the file");
}

TEST(MatchKeys, LenientTakesWhatThereIsButNeverNothing) {
  const KeySpec lenient{.match = recipe::KeyMatch::kExact, .strict = false};
  EXPECT_EQ(match_keys(tensors({"a", "c"}), tensors({"a", "b"}), lenient).size(), 1U);
  EXPECT_THROW(match_keys(tensors({"c"}), tensors({"a", "b"}), lenient), InputError);
}

TEST(MatchKeys, SkipsPrefixesAndSaysWhichDidNothing) {
  const KeySpec keys{.skip = {"head.", "roi_heads."}, .match = recipe::KeyMatch::kExact};
  const std::vector<NamedTensor> loaded = tensors({"head.w", "body.w"});
  EXPECT_EQ(match_keys(loaded, tensors({"head.w", "body.w"}), keys).size(), 1U);
  EXPECT_EQ(inert_prefixes(loaded, keys), (Names{"roi_heads."}));
}

TEST(MatchKeys, MayLackOnlyWhatItSkips) {
  const KeySpec keys{.skip = {"head."}, .match = recipe::KeyMatch::kExact};
  EXPECT_EQ(match_keys(tensors({"body.w"}), tensors({"head.w", "body.w"}), keys).size(), 1U);
  EXPECT_THROW(match_keys(tensors({"body.w"}), tensors({"head.w", "body.w", "body.b"}), keys), InputError);
}

TEST(MatchKeys, SkipsPrefixesOfNamesAsStripped) {
  const KeySpec keys{.skip = {"head."}, .strip = "module.", .match = recipe::KeyMatch::kExact};
  const std::vector<NamedTensor> loaded = tensors({"module.head.w", "module.body.w"});
  EXPECT_EQ(match_keys(loaded, tensors({"head.w", "body.w"}), keys).size(), 1U);
  EXPECT_TRUE(inert_prefixes(loaded, keys).empty());
}

TEST(MatchKeys, LooksUnderOneEntry) {
  const KeySpec keys{.under = "model", .skip = {"head."}, .match = recipe::KeyMatch::kExact};
  const std::vector<NamedTensor> loaded = tensors({"model.w", "model.head.w", "optimizer.state.0.exp_avg"});
  EXPECT_EQ(match_keys(loaded, tensors({"w", "head.w"}), keys).size(), 1U);
  EXPECT_TRUE(inert_prefixes(loaded, keys).empty());
}

}  // namespace
}  // namespace lockstep::train
