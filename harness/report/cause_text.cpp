#include "harness/report/cause_text.h"

#include <algorithm>

#include "harness/base/text.h"

namespace lockstep::report {
namespace {

/// Calls `action` with every address of a row.
template <typename Action>
void for_each_source(const diagnosis::Cause& cause, Action action) {
  for (std::string_view rest = cause.sources; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(' '));
    action(one);
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
  }
}

}  // namespace

std::string to_text(const diagnosis::Cause& cause) {
  std::string out = std::string(cause.id) + " (" + std::string(name_of(cause.class_)) + ")\n";
  out += "  what    " + std::string(cause.sentence) + "\n";
  out += "  remedy  " + std::string(cause.remedy) + "\n";
  if (!cause.is_named) out += "  note    not recognised yet\n";
  for_each_source(cause, [&](std::string_view source) { out += "  source  " + std::string(source) + "\n"; });
  return out;
}

std::string list_of_causes() {
  std::size_t ids = 0, classes = 0;
  for (const diagnosis::Cause& cause : diagnosis::causes()) {
    ids = std::max(ids, cause.id.size());
    classes = std::max(classes, name_of(cause.class_).size());
  }
  std::string out;
  for (const diagnosis::Cause& cause : diagnosis::causes())
    out += padded(cause.id, ids + 2) + padded(name_of(cause.class_), classes + 2) + std::string(cause.sentence) + "\n";
  return out;
}

std::string markdown_of_causes() {
  std::string out =
      "# Causes\n\n"
      "Written by `lockstep explain --markdown` from `harness/diagnosis/causes.cpp`; change it there. A finding names "
      "one of these causes, or `unknown`. lockstep does not recognise those marked ° yet.\n\n"
      "| cause | class | what is wrong | what usually helps | seen in |\n|---|---|---|---|---|\n";
  for (const diagnosis::Cause& cause : diagnosis::causes()) {
    out += "| `" + std::string(cause.id) + (cause.is_named ? "` | " : "`° | ") + std::string(name_of(cause.class_)) +
           " | " + std::string(cause.sentence) + " | " + std::string(cause.remedy) + " | ";
    std::string_view separator;
    for_each_source(cause, [&](std::string_view source) {
      out += std::string(separator) + "<" + std::string(source) + ">";
      separator = " ";
    });
    out += " |\n";
  }
  return out;
}

}  // namespace lockstep::report
