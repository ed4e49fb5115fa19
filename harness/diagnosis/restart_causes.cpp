#include "harness/diagnosis/restart_causes.h"

#include <algorithm>

namespace lockstep::diagnosis {
namespace {

using trace::Channel;

bool went_on(const Side& side) { return side && side.promises->train.checkpoint.load.has_value(); }

/// The repeat of a variant that belongs to a repeat of another one.
const trace::RunTrace* partner_of(const Question& question, const Side& side, const std::string& variant) {
  const auto runs = question.traces.find(side.promises->name), partners = question.traces.find(variant);
  if (runs == question.traces.end() || partners == question.traces.end() || partners->second.empty()) return nullptr;
  const auto at = std::find(runs->second.begin(), runs->second.end(), side.run) - runs->second.begin();
  return partners->second[std::min(static_cast<std::size_t>(at), partners->second.size() - 1)];
}

Side straight_side(const Scene& scene, const Side& resumed) {
  for (const Side& side : {scene.left, scene.right}) {
    if (side && side.run != resumed.run && !went_on(side)) return side;
  }
  if (scene.question.traits().sides != scenario::Sides::kResumption) return {};
  const std::string& straight = scene.question.straight;
  const trace::RunTrace* run = partner_of(scene.question, resumed, straight);
  return run == nullptr ? Side{} : Side{run, scene.question.promises.at(straight), 0};
}

}  // namespace

bool Restart::changes_world() const {
  const std::int64_t world = resumed.run->world_size();
  return source_world != world || (straight && straight.run->world_size() != world);
}

bool Restart::asks(Channel channel) const {
  const recipe::LoadSpec& load = *resumed.promises->train.checkpoint.load;
  if (channel == Channel::kBuffer) return load.restores("buffers") || load.restores("weights");
  const char* part = channel == Channel::kWeight ? "weights" : trace::name_of(channel).data();
  return load.restores(part);
}

const trace::Record* Restart::loaded(std::size_t rank, Channel channel, const std::string& name) const {
  return resumed.run->ranks[rank].find(begin, channel, name);
}

const trace::Step* Restart::held(std::size_t rank, std::int64_t step) const {
  const trace::RunTrace* run = straight ? straight.run : source;
  if (run == nullptr || run->ranks.empty()) return nullptr;
  return run->ranks[rank < run->ranks.size() ? rank : 0].find(step);
}

const trace::Record* Restart::held(std::size_t rank, std::int64_t step, Channel channel,
                                   const std::string& name) const {
  const trace::Step* found = held(rank, step);
  return found == nullptr ? nullptr : found->find(channel, name);
}

std::optional<Restart> restart_in(const Scene& scene) {
  Restart restart;
  restart.resumed = went_on(scene.right) ? scene.right : went_on(scene.left) ? scene.left : Side{};
  if (!restart.resumed || restart.resumed.run->ranks.empty()) return std::nullopt;
  const auto& steps = restart.resumed.run->ranks[0].steps;
  if (steps.empty()) return std::nullopt;
  restart.straight = straight_side(scene, restart.resumed);
  restart.begin = restart.saved = steps.front().step;
  restart.source_world = restart.resumed.promises->world_size;
  const recipe::LoadSpec& load = *restart.resumed.promises->train.checkpoint.load;
  const auto source = scene.question.promises.find(load.from);
  if (source != scene.question.promises.end()) {
    restart.source = partner_of(scene.question, restart.resumed, load.from);
    restart.source_world = source->second->world_size;
    restart.saved = scenario::newest_saved(load, *source->second) - 1;
  }
  for (const trace::Step& step : steps) {
    if (step.step > restart.begin && !restart.first) restart.first = step.step;
  }
  return restart;
}

}  // namespace lockstep::diagnosis
