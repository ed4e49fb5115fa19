#include "harness/trace/batch_share.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <string>

namespace lockstep::trace {

BatchShare batch_share_of(const Trace& trace) {
  const auto said = trace.header.is_object() ? trace.header.find("data_parallel") : trace.header.end();
  if (said == trace.header.end()) return {.number = trace.rank, .count = trace.world_size};
  return {.number = said->at("rank").get<std::int64_t>(), .count = said->at("size").get<std::int64_t>()};
}

std::int64_t batch_shares_of(const RunTrace& run) {
  std::set<std::int64_t> shares;
  for (const Trace& rank : run.ranks) shares.insert(batch_share_of(rank).number);
  return static_cast<std::int64_t>(shares.size());
}

std::map<std::string, std::int64_t> mesh_of(const RunTrace& run) {
  std::map<std::string, std::int64_t> mesh;
  if (run.ranks.empty() || run.ranks[0].steps.empty()) return mesh;
  for (const Record& record : run.ranks[0].steps.front().records) {
    std::istringstream dimensions(record.layout.substr(0, record.layout.find(':')));
    for (std::string dimension; std::getline(dimensions, dimension, ',');) {
      const std::size_t equals = dimension.find('=');
      if (equals != std::string::npos) mesh[dimension.substr(0, equals)] = std::stoll(dimension.substr(equals + 1));
    }
  }
  return mesh;
}

bool is_first_of_share(const RunTrace& run, std::size_t rank) {
  const std::int64_t share = batch_share_of(run.ranks[rank]).number;
  return std::none_of(run.ranks.begin(), run.ranks.begin() + static_cast<std::ptrdiff_t>(rank),
                      [&](const Trace& before) { return batch_share_of(before).number == share; });
}

RunTrace one_rank_for_each_share(const RunTrace& run) {
  RunTrace result{.run = run.run, .ranks = {}, .files = run.files, .written = run.written, .unplaced = run.unplaced};
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    if (is_first_of_share(run, rank)) result.ranks.push_back(run.ranks[rank]);
  }
  std::stable_sort(result.ranks.begin(), result.ranks.end(),
                   [](const Trace& a, const Trace& b) { return batch_share_of(a).number < batch_share_of(b).number; });
  return result;
}

}  // namespace lockstep::trace
