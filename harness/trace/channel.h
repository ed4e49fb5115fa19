#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::trace {

/// Kind of a record, in the order in which a training step produces them.
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

/// Role of a channel in a training.
enum class Part {
  kTaken,      ///< samples and inputs, as they came
  kGenerator,  ///< state that draws come from
  kComputed,   ///< losses and gradients: each step makes them anew
  kUpdated,    ///< what the optimizer's update makes: its state and the weights
  kFollowing,  ///< state that changes beside the update
  kMeasured,   ///< metrics of the weights
  kCounted,    ///< rates, counters and denominators, which have a closed form
  kExchanged,  ///< collectives of the ranks
};

/// Names of a channel's records.
enum class Names {
  kOwn,                ///< "reduced", "ids"
  kParameters,         ///< "fc1.weight"
  kParametersAndState  ///< "fc1.weight.momentum"
};

/// Whether it means the same in runs that cut their batches into other numbers of ranks or micro-batches.
enum class Across {
  kAllShapes,  ///< it is of the whole batch, or some of its records are
  kOneShape,
};

/// One row for each channel, in order.
struct ChannelInfo {
  Channel channel;
  std::string_view name;
  Sharing sharing;
  Part part;
  Names names;
  Across across;
  std::string_view content;

  /// Whether rounding can reach it: the rest is taken, drawn, counted or agreed upon.
  constexpr bool can_round() const { return part == Part::kComputed || is_state() || part == Part::kMeasured; }

  /// Whether it is a state of the model or its optimizer: changed in each update.
  constexpr bool is_state() const { return part == Part::kUpdated || part == Part::kFollowing; }

  /// Whether training goes on from it: what a checkpoint holds.
  constexpr bool is_carried() const { return part == Part::kGenerator || is_state(); }

  /// Whether it is a place that updates move: weights, buffers and averages, and no momentum.
  constexpr bool is_position() const { return is_state() && names != Names::kParametersAndState; }

  /// Whether it holds a gradient of each parameter, before the reduction or after.
  constexpr bool is_gradient() const { return part == Part::kComputed && names == Names::kParameters; }

  /// Whether it holds something of each parameter.
  constexpr bool is_of_parameters() const { return names != Names::kOwn; }
};

inline constexpr std::array<ChannelInfo, 13> kChannels = {{
    {Channel::kSamples, "samples", Sharing::kPerRank, Part::kTaken, Names::kOwn, Across::kAllShapes,
     "ids of the samples that this rank takes, in order"},
    {Channel::kInput, "input", Sharing::kPerRank, Part::kTaken, Names::kOwn, Across::kOneShape,
     "the tensors that enter the model"},
    {Channel::kRng, "rng", Sharing::kPerRank, Part::kGenerator, Names::kOwn, Across::kOneShape,
     "state of each generator that training draws from"},
    {Channel::kLoss, "loss", Sharing::kPerRank, Part::kComputed, Names::kOwn, Across::kAllShapes,
     "local loss; mean over the ranks as 'reduced'"},
    {Channel::kGradientLocal, "gradient.local", Sharing::kPerRank, Part::kComputed, Names::kParameters,
     Across::kOneShape, "gradient of each parameter before the reduction"},
    {Channel::kGradient, "gradient", Sharing::kReplicated, Part::kComputed, Names::kParameters, Across::kAllShapes,
     "gradient of each parameter after the reduction"},
    {Channel::kOptimizer, "optimizer", Sharing::kReplicated, Part::kUpdated, Names::kParametersAndState,
     Across::kAllShapes, "state tensors of the optimizer after the update"},
    {Channel::kWeight, "weight", Sharing::kReplicated, Part::kUpdated, Names::kParameters, Across::kAllShapes,
     "parameters after the update"},
    {Channel::kBuffer, "buffer", Sharing::kReplicated, Part::kFollowing, Names::kOwn, Across::kAllShapes,
     "buffers after the update"},
    {Channel::kEma, "ema", Sharing::kReplicated, Part::kFollowing, Names::kParameters, Across::kAllShapes,
     "averaged parameters after the update"},
    {Channel::kMetric, "metric", Sharing::kReplicated, Part::kMeasured, Names::kOwn, Across::kAllShapes,
     "loss and accuracy on the held-out samples"},
    {Channel::kLedger, "ledger", Sharing::kReplicated, Part::kCounted, Names::kOwn, Across::kAllShapes,
     "learning rate, denominators and counters"},
    {Channel::kCollective, "collective", Sharing::kReplicated, Part::kExchanged, Names::kOwn, Across::kOneShape,
     "operation, dtype, elements, reduce op, in issue order"},
}};

constexpr const ChannelInfo& info(Channel channel) { return kChannels[static_cast<std::size_t>(channel)]; }
constexpr std::string_view name_of(Channel channel) { return info(channel).name; }
std::optional<Channel> channel_named(std::string_view name);
std::vector<std::string> channel_names();
std::vector<Channel> all_channels();

/// All channels with a trait, in order.
template <typename Trait>
std::vector<Channel> channels_that(Trait trait) {
  std::vector<Channel> channels;
  for (const ChannelInfo& row : kChannels) {
    if (trait(row)) channels.push_back(row.channel);
  }
  return channels;
}

}  // namespace lockstep::trace
