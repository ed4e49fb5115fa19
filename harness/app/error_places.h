#pragma once

#include "harness/base/error.h"

namespace lockstep::app {

/// The problems of an error, for people. One that names a key of a JSON file gets its place: "own.json: train.steps, at
/// own.json:12:7". A key that no file has stays as it is. One that names a missing file gets the nearest name there.
ProblemList as_told(const Error& error);

}  // namespace lockstep::app
