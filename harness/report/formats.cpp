#include "harness/report/renderer.h"

namespace lockstep::report {

const std::vector<Format>& formats() {
  static const std::vector<Format> rows = {
      {"--json", "Write the machine-readable result; '-' is stdout", make_json_renderer},
  };
  return rows;
}

}  // namespace lockstep::report
