#pragma once

#include <string>

namespace lockstep::app {

/// Output of a shell command, and how it ended, as waitpid tells; -1: it was not started.
struct Said {
  std::string text;
  int status = -1;
};

/// Runs a shell command and waits for it.
Said said_by(const std::string& command);

}  // namespace lockstep::app
