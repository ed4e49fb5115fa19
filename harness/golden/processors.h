#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/golden/golden_file.h"
#include "harness/trace/trace.h"

/// Keys of a golden's entries: processors that an entry holds for. A class ("portable", "native-avx512"), or one model
/// of a class ("native-avx512@amd-epyc-9b14").
namespace lockstep::golden {

/// Keys that a run may have an entry under, in the order of looking: its model, then its class. A machine that does not
/// say its model has the class alone.
std::vector<std::string> keys_of(const trace::RunTrace& run);

/// Class of the processors that computed a run.
std::string class_of(const trace::RunTrace& run);

/// Class that an entry's key belongs to.
std::string class_of(const std::string& key);

/// Whether the name of a class is one that lockstep gives.
bool is_class(const std::string& name);

/// Whether runs with a `determinism.cpu` may have this class; empty: the training names none, as "native".
bool is_class_of(const std::string& cpu, const std::string& name);

/// Class of this machine's processor, where a training names none.
std::string native_class();

/// The entry that a run is compared with; null where none holds for its processors.
const Entry* entry_for(const Golden& golden, const trace::RunTrace& run);

/// Key of one model of a class, of an environment that a recorder wrote. *Throws*: InputError at `origin` if it does
/// not say the model.
std::string key_of_model(const std::string& of_class, const Json& environment, const std::string& origin);

/// Key under which a run becomes a golden: that of an entry that the file has for it, else its class.
std::string key_to_accept(const std::filesystem::path& file, const trace::RunTrace& run);

}  // namespace lockstep::golden
