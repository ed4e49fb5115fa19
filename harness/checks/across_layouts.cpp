#include "harness/checks/across_layouts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "harness/laws/seen_facts.h"

namespace lockstep::checks {
namespace {

using trace::Channel;
using trace::RunTrace;

/// Parameters that an optimizer updates, and FSDP2 does not reduce.
std::set<std::string> outside_of_fsdp(const RunTrace& run) {
  std::set<std::string> names;
  if (laws::fsdp_of(run).empty()) return names;
  for (const Json& name : laws::seen_of(run, "ddp").value("outside", Json::array())) {
    if (name.is_string()) names.insert(name.get<std::string>());
  }
  return names;
}

bool is_of_later_reduction(const std::string& name) { return name.find('#') != std::string::npos; }

}  // namespace

compare::Scope across_layouts(const std::vector<const RunTrace*>& runs, compare::Scope scope) {
  std::set<std::string> outside;
  for (const RunTrace* run : runs) outside.merge(outside_of_fsdp(*run));
  scope.skip = [outside = std::move(outside), before = std::move(scope.skip)](Channel channel, const std::string& name,
                                                                              std::int64_t step) {
    const bool is_odd = channel == Channel::kGradientLocal && (is_of_later_reduction(name) || outside.contains(name));
    return is_odd || (before && before(channel, name, step));
  };
  return scope;
}

compare::Scope across_layouts(const RunTrace& left, const RunTrace& right, compare::Scope scope) {
  return laws::lie_otherwise(left, right) ? across_layouts({&left, &right}, std::move(scope)) : scope;
}

std::string leave_collectives_out(const RunTrace& left, const RunTrace& right, const CheckInput& input,
                                  std::vector<Channel>& channels) {
  const bool takes =
      input.spec.channels.empty() && laws::lie_otherwise(left, right) && std::erase(channels, Channel::kCollective) > 0;
  return takes ? "collectives are not compared: the ranks share the model in different ways" : "";
}

std::string left_out_across_layouts(const RunTrace& left, const RunTrace& right) {
  return laws::lie_otherwise(left, right) ? left_out_across_layouts({&left, &right}) : "";
}

std::string left_out_across_layouts(const std::vector<const RunTrace*>& runs) {
  const compare::Scope scope = across_layouts(runs);
  for (const RunTrace* run : runs) {
    for (const trace::Step& step : run->ranks[0].steps) {
      const bool any = std::any_of(step.records.begin(), step.records.end(), [&](const trace::Record& record) {
        return scope.skip(record.channel, record.name, step.step);
      });
      if (any) return "own gradients of later reductions, and of parameters outside of FSDP2, are not compared";
    }
  }
  return "";
}

}  // namespace lockstep::checks
