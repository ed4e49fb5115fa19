#include "harness/laws/scales.h"

#include <algorithm>
#include <cmath>

#include "harness/trace/entry.h"

namespace lockstep::laws {
namespace {

using trace::Channel;
using trace::Record;
using trace::RunTrace;
using trace::Step;
using trace::Trace;

/// What a record shares its scale with: the parameters of one layer; "fc1.weight" and "fc1.bias", each with its own
/// state.
std::string family_of(const Record& record) {
  const trace::ChannelInfo& channel = trace::info(record.channel);
  const std::string kind = channel.is_gradient() ? "gradient " : std::string(channel.name) + " ";
  switch (channel.names) {
    case trace::Names::kOwn:
      return kind + record.name;
    case trace::Names::kParameters:
      return kind + layer_of(record.name);
    case trace::Names::kParametersAndState: {
      const std::string parameter = layer_of(record.name);
      return kind + layer_of(parameter) + record.name.substr(parameter.size());
    }
  }
  return kind + record.name;
}

const std::map<std::int64_t, double>& of_family(const std::map<std::string, std::map<std::int64_t, double>>& families,
                                                const Record& record) {
  static const std::map<std::int64_t, double> none;
  const auto found = families.find(family_of(record));
  return found == families.end() ? none : found->second;
}

/// Value at `step`, or 0.
double at(const std::map<std::int64_t, double>& values, std::int64_t step) {
  const auto found = values.find(step);
  return found == values.end() ? 0 : found->second;
}

/// Samples × positions that one step of one rank adds up.
double batch_terms_of(const Step& step, double samples) {
  double terms = 0;
  for (const Record& record : step.records) {
    if (record.channel != Channel::kInput || !trace::is_floating(record.dtype) || record.shape.empty()) continue;
    terms += count_of(record) / (record.shape.size() > 1 ? std::max(1.0, static_cast<double>(record.shape[1])) : 1);
  }
  return std::max(terms, samples);
}

/// Fan-in and fan-out of every layer: the lengths of the dot products on the way through the network and back.
double layer_terms(const Step& step) {
  double terms = 0;
  for (const Record& record : step.records) {
    if (record.channel != Channel::kWeight || record.shape.size() < 2 || record.shape[0] == 0) continue;
    terms += count_of(record) / static_cast<double>(record.shape[0]) + static_cast<double>(record.shape[0]);
  }
  return terms;
}

}  // namespace

bool differ_in_last_places(const Record& a, const Record& b) {
  constexpr double kLastPlaces = 0x1p-50;
  const bool are_rates = a.channel == Channel::kLedger && b.channel == Channel::kLedger && a.number && b.number;
  return are_rates &&
         std::fabs(*a.number - *b.number) <= kLastPlaces * std::max(std::fabs(*a.number), std::fabs(*b.number));
}

bool differ_harmlessly(const Record& a, const Record& b) {
  const bool may_be_other = (a.channel == Channel::kLedger && a.name == trace::entry::kLossDenominator) ||
                            (a.channel == Channel::kMetric && a.name == "accuracy");
  return may_be_other || differ_in_last_places(a, b);
}

std::string layer_of(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('.') == std::string::npos ? 0 : parameter.rfind('.'));
}

double count_of(const Record& record) {
  double count = 1;
  for (const std::int64_t extent : record.shape) count *= static_cast<double>(extent);
  return count;
}

double estimated_distance(const trace::Sketch& a, const trace::Sketch& b) {
  return trace::estimated_norm(trace::difference(a, b));
}

Scales::Scales(const RunTrace& run) : fixed_terms_(static_cast<double>(run.world_size())) {
  for (const Trace& rank : run.ranks) {
    for (const Step& step : rank.steps) {
      const Record* ids = step.find(Channel::kSamples, "ids");
      const double samples = ids == nullptr ? 0 : count_of(*ids);
      samples_[step.step] += samples;
      batch_terms_[step.step] += batch_terms_of(step, samples);
    }
  }
  if (!run.ranks[0].steps.empty()) fixed_terms_ += layer_terms(run.ranks[0].steps.front());
  add_norms(run);
  add_updates(run);
}

void Scales::add_norms(const RunTrace& run) {
  std::map<std::string, double> largest;  // so far
  for (const Step& step : run.ranks[0].steps) {
    for (const Record& record : step.records) {
      if (!trace::info(record.channel).can_round() || !record.norm) continue;
      const std::string family = family_of(record);
      double norm = *record.norm;
      if (record.channel == Channel::kGradientLocal) {
        double squares = 0;
        for (const Trace& rank : run.ranks) {
          const Record* local = rank.find(step.step, record.channel, record.name);
          if (local != nullptr) squares += std::pow(local->norm.value_or(0), 2);
        }
        norm = std::sqrt(squares / static_cast<double>(run.world_size()));
      }
      const bool of_this_step = trace::info(record.channel).is_gradient();
      double& value = norms_[family][step.step];
      value = std::max(value, of_this_step ? norm : (largest[family] = std::max(largest[family], norm)));
    }
  }
}

void Scales::add_updates(const RunTrace& run) {
  const Step* before = nullptr;
  std::map<std::string, double> path;
  for (const Step& step : run.ranks[0].steps) {
    for (const Record& record : step.records) {
      const Record* from = before == nullptr || !trace::info(record.channel).is_position()
                               ? nullptr
                               : before->find(record.channel, record.name);
      // Averages begin as the weights of the first update.
      if (from == nullptr && before != nullptr && record.channel == Channel::kEma)
        from = before->find(Channel::kWeight, record.name);
      if (from == nullptr || !from->sketch || !record.sketch) continue;
      double& update = updates_[family_of(record)][step.step];
      update = std::max(update, estimated_distance(*record.sketch, *from->sketch));
    }
    for (const auto& [family, updates] : updates_) paths_[family][step.step] = path[family] += at(updates, step.step);
    before = &step;
  }
}

double Scales::largest(const Record& record, std::int64_t step) const { return at(of_family(norms_, record), step); }
double Scales::update(const Record& record, std::int64_t step) const { return at(of_family(updates_, record), step); }
double Scales::path(const Record& record, std::int64_t step) const { return at(of_family(paths_, record), step); }
double Scales::terms(std::int64_t step) const {
  return fixed_terms_ + at(batch_terms_, std::max<std::int64_t>(step, 0));
}
double Scales::samples(std::int64_t step) const { return at(samples_, step); }

}  // namespace lockstep::laws
