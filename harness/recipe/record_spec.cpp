#include "harness/recipe/record_spec.h"

#include <algorithm>

namespace lockstep::recipe {

bool RecordSpec::holds(trace::Channel channel) const {
  return std::find(channels.begin(), channels.end(), trace::name_of(channel)) != channels.end();
}

}  // namespace lockstep::recipe
