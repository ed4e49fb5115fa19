#include "harness/trace/channel.h"

namespace lockstep::trace {

const ChannelInfo& info(Channel channel) { return kChannels[static_cast<std::size_t>(channel)]; }

bool is_carried(Channel channel) {
  return channel == Channel::kRng || channel == Channel::kOptimizer || channel == Channel::kWeight ||
         channel == Channel::kBuffer || channel == Channel::kEma;
}

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
  std::vector<Channel> channels;
  for (const ChannelInfo& row : kChannels) channels.push_back(row.channel);
  return channels;
}

}  // namespace lockstep::trace
