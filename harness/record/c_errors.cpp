#include "harness/record/c_errors.h"

#include <exception>
#include <new>
#include <stdexcept>

#include "harness/base/error.h"

namespace lockstep::record {
namespace {

lockstep_status status_of(const std::exception& error) {
  if (dynamic_cast<const InputError*>(&error) != nullptr) return LOCKSTEP_MISUSE;
  const bool from_system = dynamic_cast<const ResourceError*>(&error) != nullptr;
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                         dynamic_cast<const std::length_error*>(&error) != nullptr;  // a container larger than memory
  return from_system || no_memory ? LOCKSTEP_SYSTEM : LOCKSTEP_INTERNAL;
}

std::string text_of(const std::exception& error, const std::string& where) {
  const auto* const ours = dynamic_cast<const Error*>(&error);
  if (ours == nullptr) return status_of(error) == LOCKSTEP_SYSTEM ? kNoMemory : error.what();
  Problem problem = ours->problem();
  if (problem.where.empty()) problem.where = where;
  return describe(problem);
}

}  // namespace

lockstep_status status_of_exception(const std::string& where, std::string& text) noexcept {
  try {
    throw;
  } catch (const std::exception& error) {
    try {
      text = text_of(error, where);
    } catch (...) {
      text = kNoMemory;
    }
    return status_of(error);
  } catch (...) {
    text = "unknown error";
    return LOCKSTEP_INTERNAL;
  }
}

}  // namespace lockstep::record
