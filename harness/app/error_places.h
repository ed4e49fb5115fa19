#pragma once

#include "harness/base/error.h"

namespace lockstep::app {

/// The problems of an error as they are told. One that names a key of a JSON file gets its place: "own.json:
/// train.optimizer.lr, at own.json:12:7"; a key that no file has was set by an option, or is a default. One that names
/// a file which is not there gets the name of one that is.
ProblemList as_told(const Error& error);

}  // namespace lockstep::app
