#include "harness/train/recording/recording.h"

#include "harness/train/device/determinism.h"

namespace lockstep::train {

record::Selection selection_of(const recipe::TrainSpec& train) {
  const recipe::RecordSpec& spec = train.record;
  record::Selection selection{.channels = {}, .every = spec.every, .captures = {}, .last = train.steps - 1};
  for (const std::string& name : spec.channels) selection.channels.insert(trace::channel_named(name).value());
  for (const recipe::CaptureSpec& capture : spec.captures)
    selection.captures.push_back({capture.step, trace::channel_named(capture.channel), capture.tensor});
  return selection;
}

Json header_of(const RunSpec& run, const Dataset& data, std::int64_t samples, const Device& device,
               const std::vector<std::string>& inert) {
  Json environment = environment_manifest();
  environment.update(device.manifest());
  const recipe::RecordSpec& record = run.train.record;
  Json header = {{"scenario", run.scenario},
                 {"variant", run.variant},
                 {"repeat", run.repeat},
                 {"train_digest", run.train_digest},
                 {"record", {{"every", record.every}, {"channels", record.channels}}},
                 {"cpu", run.train.determinism.cpu},
                 {"samples", samples},
                 {"environment", environment}};
  if (const auto targets = data.targets_per_sample()) header["targets_per_sample"] = *targets;
  if (const auto coarsest = run.train.coarsest_arithmetic()) header["arithmetic"] = *coarsest;
  for (const std::string& prefix : inert)
    header["warnings"].push_back("no name in the checkpoint begins with '" + prefix + "': skipping it does nothing");
  return header;
}

}  // namespace lockstep::train
