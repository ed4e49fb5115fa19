#include "harness/scenario/record_reading.h"

#include <algorithm>

#include "harness/base/text.h"
#include "harness/scenario/reading.h"

namespace lockstep::scenario {

recipe::RecordSpec record_spec_from(const Json& completed) {
  recipe::RecordSpec record{.channels = completed.at("channels").get<std::vector<std::string>>(),
                            .every = completed.at("every").get<std::int64_t>(),
                            .captures = {},
                            .slopes = completed.value("slopes", false)};
  for (const Json& capture : completed.at("capture"))
    record.captures.push_back({.step = capture.at("step").get<std::int64_t>(),
                               .channel = capture.at("channel").get<std::string>(),
                               .tensor = capture.at("tensor").get<std::string>()});
  return record;
}

void validate(const recipe::RecordSpec& spec, std::int64_t steps, const std::string& origin) {
  for (const recipe::CaptureSpec& capture : spec.captures) {
    const std::string where = "train.record.capture", step = std::to_string(capture.step);
    require(capture.step < steps, origin, where, "a captured step is never reached",
            "less than train.steps = " + std::to_string(steps), step);
    if (capture.channel.empty()) continue;  // elements are kept of what is recorded, when it is
    require(std::find(spec.channels.begin(), spec.channels.end(), capture.channel) != spec.channels.end(), origin,
            where, "elements of a channel that is not recorded",
            "one of train.record.channels: " + join(spec.channels, ", "), "'" + capture.channel + "'");
    require(capture.step < 0 || capture.step % spec.every == 0 || capture.step == steps - 1, origin, where,
            "elements of a step that is not recorded",
            "-1, a multiple of train.record.every = " + std::to_string(spec.every) + ", or the last step, " +
                std::to_string(steps - 1),
            step);
  }
}

}  // namespace lockstep::scenario
