#include "harness/trace/channel.h"

namespace lockstep::trace {

namespace {

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < kChannels.size(); ++i) {
    if (kChannels[i].channel != static_cast<Channel>(i)) return false;
  }
  return kChannels.back().channel == Channel::kCollective;
}
static_assert(rows_are_in_order(), "kChannels needs one row for each channel, in the order of the enumeration");

}  // namespace

std::optional<Channel> channel_named(std::string_view name) {
  for (const ChannelInfo& row : kChannels) {
    if (row.name == name) return row.channel;
  }
  return std::nullopt;
}

std::vector<std::string> channel_names() {
  std::vector<std::string> names;
  for (const ChannelInfo& row : kChannels) names.emplace_back(row.name);
  return names;
}

std::vector<Channel> all_channels() {
  return channels_that([](const ChannelInfo&) { return true; });
}

}  // namespace lockstep::trace
