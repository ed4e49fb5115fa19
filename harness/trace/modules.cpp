#include "harness/trace/modules.h"

namespace lockstep::trace {

std::map<std::string, std::string> own_modules(const RunTrace& run) {
  constexpr std::string_view kLater = "seen.module ";
  std::map<std::string, std::string> modules;
  for (const Trace& rank : run.ranks) {
    const Json first = rank.header.is_object() ? rank.header.value("modules", Json::object()) : Json::object();
    for (const auto& [path, digest] : first.items()) {
      if (digest.is_string()) modules[path] = digest.get<std::string>();
    }
    for (const Step& step : rank.steps) {
      for (const Record& record : step.records) {
        if (record.channel == Channel::kLedger && record.name.starts_with(kLater))
          modules[record.name.substr(kLater.size())] = record.text;
      }
    }
  }
  return modules;
}

std::vector<std::string> modules_that_differ(const RunTrace& left, const RunTrace& right) {
  std::map<std::string, std::string> ours = own_modules(left), theirs = own_modules(right);
  std::vector<std::string> paths;
  if (ours.empty() || theirs.empty()) return paths;
  for (const auto& [path, digest] : ours) {
    const auto other = theirs.extract(path);
    if (other.empty() || other.mapped() != digest) paths.push_back(path);
  }
  for (const auto& [path, digest] : theirs) paths.push_back(path);
  return paths;
}

}  // namespace lockstep::trace
