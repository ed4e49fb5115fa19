#include "harness/launch/place.h"

#include <cstdlib>
#include <string>

#include "harness/base/error.h"
#include "harness/launch/place/torchrun.h"

namespace lockstep::launch {
namespace {

/// One kind of environment.
struct Kind {
  const char* sign;  ///< the variable that shows that a rank stands in one
  Place (*resolve)();
};

constexpr Kind kKinds[] = {{"WORLD_SIZE", place_from_torchrun}};

}  // namespace

Place place_from_environment() {
  std::string signs;
  for (const Kind& kind : kKinds) {
    if (std::getenv(kind.sign) != nullptr) return kind.resolve();
    signs += (signs.empty() ? "" : ", or ") + std::string(kind.sign);
  }
  throw InputError({.what = "no launcher told this rank its place",
                    .expected = "the environment variable " + signs,
                    .actual = "not set",
                    .next = "start the worker with lockstep, torchrun, or with RANK, WORLD_SIZE and MASTER_PORT set"});
}

}  // namespace lockstep::launch
