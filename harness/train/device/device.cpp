#include "harness/train/device/device.h"

#include "harness/base/error.h"

namespace lockstep::train {

#define LOCKSTEP_KIND(name) std::unique_ptr<Device> make_##name##_device(const Seat& seat);
#include "kinds/device.inc"
#undef LOCKSTEP_KIND

std::unique_ptr<Device> make_device(const std::string& name, const Seat& seat) {
#define LOCKSTEP_KIND(kind) \
  if (name == #kind) return make_##kind##_device(seat);
#include "kinds/device.inc"
#undef LOCKSTEP_KIND
  throw InternalError({.what = "no device " + name});
}

Json devices_here() {
  Json devices = Json::array();
  const auto add = [&](const std::string& name) {
    try {
      devices.push_back({{"name", name}, {"usable", true}, {"says", make_device(name, {})->description()}});
    } catch (const Unsupported& error) {
      devices.push_back({{"name", name}, {"usable", false}, {"says", error.problem().what}});
    }
  };
#define LOCKSTEP_KIND(kind) add(#kind);
#include "kinds/device.inc"
#undef LOCKSTEP_KIND
  return devices;
}

}  // namespace lockstep::train
