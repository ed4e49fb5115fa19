#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

/// Parts of a training that were not recorded, so agreement says nothing about them.
namespace lockstep::judge {

/// Which steps were not recorded, where one of every so many updates is: "of every 10 updates one is recorded: …". A
/// recorder of a program does not know which update is the last. Empty: all are recorded.
std::string steps_left_out(const trace::RunTrace& run, const scenario::Promises& promises);

/// Updates that a program made within lockstep.off(), on the rank with the most of them.
std::int64_t muted_updates(const trace::RunTrace& run);

/// Says how many those are; empty: none.
std::string muted_text(const trace::RunTrace& run);

/// Says which tensors a program's recorder met and could not read, as gradients that are terms of a sum; empty: none.
std::string unread_text(const trace::RunTrace& run);

/// Why it shows less that these runs agree: they left unequally many updates out. Empty: as many.
std::string muted_otherwise(const std::vector<const trace::RunTrace*>& runs);

/// Names of the channels that a side does not record, of those that a comparison would look at. For a program also
/// those that every training with an optimizer has, where `runs` hold none of their records.
std::vector<std::string> channels_left_out(const std::vector<trace::Channel>& compared,
                                           const std::vector<const scenario::Promises*>& sides,
                                           const std::vector<const trace::RunTrace*>& runs);

}  // namespace lockstep::judge
