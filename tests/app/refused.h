#pragma once

#include <functional>
#include <string>

#include "harness/base/error.h"

namespace lockstep::test {

/// The words with which `action` is refused by an InputError; "" where it is not.
inline std::string refused(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace lockstep::test
