#pragma once

#include <string>

#include "harness/base/json.h"

namespace lockstep::scenario {

/// The schema of a scenario, as committed in scenario.schema.json.
const Json& schema();

/// Where a value comes from, for messages.
struct Origin {
  std::string file;    ///< "scenarios/gate/x.json"
  std::string within;  ///< "variant 'w2'", or empty
};

/// Validates `document` against schema()'s definition `definition` ("" for what surrounds the
/// runs) and returns it with
/// every missing key that has a default filled in, so that nothing further down needs to know a default.
///
/// A value with a "kind" (or "that") is held against the branch of that kind only; its keys are those of the branch.
/// *Throws*: InputError with the dotted path, what the schema expects, what is there, and the nearest valid name.
Json complete(const Json& document, const std::string& definition, const Origin& origin);

/// A completed document without what equals the defaults: what identifies it. A key that a later schema adds does not
/// change the identity of documents that do not use it.
Json without_defaults(const Json& completed, const std::string& definition);

}  // namespace lockstep::scenario
