#pragma once

#include <string>

#include "harness/base/json.h"

namespace lockstep::scenario {

/// Sets one dotted path, making the objects on the way. `where` says who asks for it.
/// *Throws*: InputError for a path that leads into a value without keys, or past the end of a list.
void set_path(Json& document, const std::string& path, const Json& value, const std::string& where);

/// Applies "dotted.path=value"; a value that is not JSON is a string. *Throws*: InputError.
void apply_override(Json& document, const std::string& text);

}  // namespace lockstep::scenario
