#include "harness/laws/contents.h"

#include <algorithm>

namespace lockstep::laws {

using trace::Channel;

const trace::Record* samples_in(const trace::Step& step) {
  const trace::Record* ids = step.find(Channel::kSamples, "ids");
  return ids != nullptr ? ids : step.find(Channel::kSamples, "items");
}

std::map<std::string, std::vector<Content>> contents_of(const trace::Step& step, char separator) {
  std::map<std::string, std::vector<Content>> contents;
  const trace::Record* ids = step.find(Channel::kSamples, "ids");
  if (ids == nullptr) return contents;
  for (const trace::Record& record : step.records) {
    if (record.channel != Channel::kInput) continue;
    std::vector<Content>& of_input = contents[record.name.substr(0, record.name.find(separator))];
    for (const std::uint64_t row : record.rows) {
      const std::size_t next = of_input.size();
      of_input.push_back({next < ids->integers.size() ? ids->integers[next] : -1, row, record.dtype});
    }
  }
  std::erase_if(contents, [&](const auto& input) { return input.second.size() != ids->integers.size(); });
  return contents;
}

}  // namespace lockstep::laws
