#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace lockstep {

/// Objects keep their keys sorted, so `dump()` of equal values gives equal text.
using Json = nlohmann::json;

/// Parses JSON with comments.
/// *Throws*: InputError that names `origin`, line and column; a key that stands twice in one object is an error too.
Json parse_json(std::string_view text, const std::string& origin);

/// The same for documents from outside. One that would take more memory than 1 MiB and 16 times its size is refused
/// before it is parsed. Documents that lockstep itself writes never do.
Json parse_modest_json(std::string_view text, const std::string& origin);

/// Parses a file of JSON with comments. *Throws*: InputError.
Json read_json(const std::filesystem::path& path);

/// Line and column at which each value of a document begins, as "12:7", by JSON pointer. `text`: that parse_json takes.
std::map<std::string, std::string> places_in(std::string_view text);

/// Recursive merge: objects merge key by key, everything else in `patch` replaces what was there.
void merge_json(Json& base, const Json& patch);

/// Keys of an object, in order.
std::vector<std::string> keys_of(const Json& object);

/// Keys whose values differ, or that one of two objects has alone: those of `a` in order, then those of `b`.
std::vector<std::string> keys_that_differ(const Json& a, const Json& b);

/// "a.b.0.c" for the JSON pointer "/a/b/0/c".
std::string dotted(const std::string& json_pointer);

}  // namespace lockstep
