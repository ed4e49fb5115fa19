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

/// Keys that a run on this machine looks for, in that order, if its training has this `determinism.cpu`.
std::vector<std::string> keys_here(const std::string& cpu);

/// The entry that a run is compared with; null where none holds for its processors.
const Entry* entry_for(const Golden& golden, const trace::RunTrace& run);

/// Key of one model of a class, of an environment that a recorder wrote. *Throws*: InputError at `origin` if it does
/// not say the model.
std::string key_of_model(const std::string& of_class, const Json& environment, const std::string& origin);

/// The key of these, in the order of looking, that a file has; else the last one, a class.
std::string key_to_accept(const std::filesystem::path& file, const std::vector<std::string>& keys);

}  // namespace lockstep::golden
