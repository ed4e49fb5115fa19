#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "harness/checks/laws_check.h"
#include "harness/judge/judge.h"
#include "harness/plan/plan.h"

namespace lockstep::judge {

/// All laws asked of each run once, without another run.
/// *Lifetime*: of its arguments.
class Alone {
 public:
  Alone(const plan::Plan& plan, const std::vector<Evidence>& evidence) : plan_(plan), evidence_(evidence) {}

  /// The law that a run breaks first; nothing where it keeps all that it can be asked, or left no trace.
  const std::optional<checks::AskedLaw>& broken_by(std::size_t run);

  /// Runs of a check's variants that hold its fault: those with a planted one; else all that the first is held against.
  std::vector<std::size_t> faulty(const CheckReport& check, const scenario::CheckSpec& spec) const;

  /// Whether a fault is planted in a run, or in one whose checkpoint it takes.
  bool holds_fault(std::size_t run) const;

 private:
  checks::Saver saver_of(std::size_t run) const;
  const scenario::Variant& variant_of(std::size_t run) const;

  const plan::Plan& plan_;
  const std::vector<Evidence>& evidence_;
  std::map<std::size_t, std::optional<checks::AskedLaw>> broken_;
};

}  // namespace lockstep::judge
