#include "harness/laws/seen_facts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "harness/base/text.h"

namespace lockstep::laws {

Json seen_of(const trace::RunTrace& run, const char* part) {
  if (run.ranks.empty() || !run.ranks[0].header.is_object()) return {};
  const Json seen = run.ranks[0].header.value("seen", Json());
  return seen.is_object() ? seen.value(part, Json()) : Json();
}

Json fsdp_of(const trace::RunTrace& run) {
  const Json ddp = seen_of(run, "ddp");
  return ddp.is_object() ? ddp.value("fsdp", Json::object()) : Json::object();
}

std::optional<std::map<std::string, std::int64_t>> layout_of(const trace::RunTrace& run) {
  const Json layout = seen_of(run, "layout");
  const auto is_size = [](const Json& size) { return size.is_number_integer(); };
  if (!layout.is_object() || !std::all_of(layout.begin(), layout.end(), is_size)) return std::nullopt;
  return layout.get<std::map<std::string, std::int64_t>>();
}

std::string text_of(const std::map<std::string, std::int64_t>& layout) {
  std::vector<std::string> parts;
  for (const auto& [kind, ranks] : layout) parts.push_back(kind + " over " + std::to_string(ranks) + " ranks");
  return parts.empty() ? "one whole model" : join(parts, " and ");
}

bool lie_otherwise(const trace::RunTrace& left, const trace::RunTrace& right) {
  const auto one = layout_of(left), other = layout_of(right);
  return one && other && *one != *other;
}

bool has_loaded(const trace::RunTrace& run) {
  const Json loaded = seen_of(run, "loaded");
  return loaded.is_array() && !loaded.empty();
}

std::int64_t seen_count(const trace::Step& step, const std::string& name) {
  const trace::Record* record = step.find(trace::Channel::kLedger, "seen." + name);
  return record == nullptr || record->integers.empty() ? 0 : record->integers[0];
}

bool ddp_has(const trace::RunTrace& run, const char* property) {
  const Json ddp = seen_of(run, "ddp");
  return ddp.is_object() && ddp.value(property, Json()) == true;
}

bool records(const trace::RunTrace& run, trace::Channel channel) {
  return std::any_of(run.ranks.begin(), run.ranks.end(), [&](const trace::Trace& rank) {
    return std::any_of(rank.steps.begin(), rank.steps.end(), [&](const trace::Step& step) {
      return std::any_of(step.records.begin(), step.records.end(),
                         [&](const trace::Record& record) { return record.channel == channel; });
    });
  });
}

bool hold_the_same_names(const trace::RunTrace& run) {
  const auto names_of = [](const trace::Trace& rank) {
    std::vector<std::string> names;
    if (rank.steps.empty()) return names;
    for (const trace::Record& record : rank.steps.front().records) {
      if (record.channel == trace::Channel::kWeight) names.push_back(record.name);
    }
    return names;
  };
  return std::all_of(run.ranks.begin(), run.ranks.end(),
                     [&](const trace::Trace& rank) { return names_of(rank) == names_of(run.ranks[0]); });
}

Breach seen_breach(RecordPlace at, std::string expected, const std::string& actual, std::string cause) {
  return {.at = std::move(at),
          .expected = std::move(expected),
          .actual = actual,
          .cause = std::move(cause),
          .evidence = actual};
}

}  // namespace lockstep::laws
