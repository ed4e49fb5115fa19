#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::trace {

/// What a record is about, in the order in which a training step produces it.
enum class Channel {
  kSamples,
  kInput,
  kRng,
  kLoss,
  kGradientLocal,
  kGradient,
  kOptimizer,
  kWeight,
  kBuffer,
  kEma,
  kMetric,
  kLedger,
  kCollective,
};

/// How a channel of one rank relates to the same channel of another rank of the same run.
enum class Sharing {
  kReplicated,  ///< every rank holds the same
  kPerRank,     ///< each rank holds its own part
};

/// One row for each channel, in order.
struct ChannelInfo {
  Channel channel;
  std::string_view name;
  Sharing sharing;
  std::string_view content;
};

inline constexpr std::array<ChannelInfo, 13> kChannels = {{
    {Channel::kSamples, "samples", Sharing::kPerRank, "ids of the samples that this rank takes, in order"},
    {Channel::kInput, "input", Sharing::kPerRank, "the tensors that enter the model"},
    {Channel::kRng, "rng", Sharing::kPerRank, "state of each generator that training draws from"},
    {Channel::kLoss, "loss", Sharing::kPerRank, "local loss; mean over the ranks as 'reduced'"},
    {Channel::kGradientLocal, "gradient.local", Sharing::kPerRank, "gradient of each parameter before the reduction"},
    {Channel::kGradient, "gradient", Sharing::kReplicated, "gradient of each parameter after the reduction"},
    {Channel::kOptimizer, "optimizer", Sharing::kReplicated, "state tensors of the optimizer after the update"},
    {Channel::kWeight, "weight", Sharing::kReplicated, "parameters after the update"},
    {Channel::kBuffer, "buffer", Sharing::kReplicated, "buffers after the update"},
    {Channel::kEma, "ema", Sharing::kReplicated, "averaged parameters after the update"},
    {Channel::kMetric, "metric", Sharing::kReplicated, "loss and accuracy on the held-out samples"},
    {Channel::kLedger, "ledger", Sharing::kReplicated, "learning rate, denominators and counters"},
    {Channel::kCollective, "collective", Sharing::kReplicated, "operation, dtype, elements, reduce op, in issue order"},
}};

/// Whether training goes on from it: what a checkpoint holds.
bool is_carried(Channel channel);

const ChannelInfo& info(Channel channel);
inline std::string_view name_of(Channel channel) { return info(channel).name; }
std::optional<Channel> channel_named(std::string_view name);
std::vector<std::string> channel_names();
std::vector<Channel> all_channels();

}  // namespace lockstep::trace
