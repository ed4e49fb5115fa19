#include "harness/trace/channel.h"

#include <set>

#include <gtest/gtest.h>

namespace lockstep::trace {
namespace {

TEST(Channel, TableFollowsTheEnumeration) {
  for (std::size_t i = 0; i < kChannels.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(kChannels[i].channel), i) << kChannels[i].name;
    EXPECT_EQ(info(static_cast<Channel>(i)).name, kChannels[i].name);
  }
  EXPECT_EQ(static_cast<std::size_t>(Channel::kCollective) + 1, kChannels.size());
}

TEST(Channel, NamesAreThoseOfTheFormat) {
  EXPECT_EQ(channel_names(),
            (std::vector<std::string>{"samples", "input", "rng", "loss", "gradient.local", "gradient", "optimizer",
                                      "weight", "buffer", "ema", "metric", "ledger", "collective"}));
}

TEST(Channel, NameRoundTrips) {
  for (const ChannelInfo& row : kChannels) {
    EXPECT_EQ(channel_named(name_of(row.channel)), row.channel);
    EXPECT_FALSE(row.content.empty());
  }
}

TEST(Channel, UnknownNameIsNone) {
  for (const char* name : {"", "weights", "Weight", "gradient.", "gradient.local "}) {
    EXPECT_FALSE(channel_named(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace lockstep::trace
