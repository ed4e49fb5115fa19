#include "harness/diagnosis/program_facts.h"

namespace lockstep::diagnosis {

bool is_between_programs(const Scene& scene) {
  const auto is_program = [](const Side& side) { return side && side.promises->known.has_value(); };
  return is_program(scene.left) && is_program(scene.right) && !scene.within_one_run();
}

std::optional<double> told_in(const Side& side, std::int64_t step, const std::string& name) {
  const trace::Record* record = side.find(step, trace::Channel::kLedger, name);
  if (record == nullptr) return std::nullopt;
  if (record->integers.size() == 1) return static_cast<double>(record->integers[0]);
  return record->number;
}

}  // namespace lockstep::diagnosis
