#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"

namespace lockstep::train {

/// What `action` throws is an InputError that says all of `words`.
template <typename Action>
void expect_refused(Action action, const std::vector<std::string>& words) {
  try {
    action();
    ADD_FAILURE() << "not refused: " << words[0];
  } catch (const InputError& error) {
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

}  // namespace lockstep::train
