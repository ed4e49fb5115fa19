#include "harness/app/shell.h"

#include <cstdio>

namespace lockstep::app {

Said said_by(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  Said said;
  char text[256];
  while (pipe != nullptr && std::fgets(text, sizeof text, pipe) != nullptr) said.text += text;
  if (pipe != nullptr) said.status = ::pclose(pipe);
  while (said.text.ends_with('\n')) said.text.pop_back();
  return said;
}

}  // namespace lockstep::app
