#pragma once

#include <string>

#include "harness/base/json.h"

namespace lockstep::scenario {

/// The schema of a scenario, as committed in scenario.schema.json.
const Json& schema();

/// The rule that a rule refers to ("$ref"), or itself.
const Json& resolved(const Json& rule);

/// The branches of a choice, one for each kind; empty for other rules. "anyOf" stands where a variant may hold a part
/// of the object without its kind, which then is of several.
const Json& branches_of(const Json& rule);

/// Where a value comes from, for messages.
struct Origin {
  std::string file;       ///< "scenarios/gate/x.jsonc"
  std::string within;     ///< "variant 'w2'", or empty
  std::string path = "";  ///< dotted, of the value in the file
};

/// Validates `document` against schema()'s definition `definition` and returns it with
/// every missing key that has a default filled in, so that nothing further down needs to know a default.
///
/// A value with a "kind" (or "that") is held against the branch of that kind only; its keys are those of the branch.
/// *Throws*: InputError with all errors, each with the dotted path, what the schema expects, what is there, and the
/// nearest valid name.
Json complete(const Json& document, const std::string& definition, const Origin& origin);

/// The same against a rule of its own.
Json complete_by(const Json& rule, const Json& document, const Origin& origin);

/// A completed document without what equals the defaults: what identifies it. A key that a later schema adds does not
/// change the identity of documents that do not use it.
Json without_defaults(const Json& completed, const std::string& definition);

}  // namespace lockstep::scenario
