#include "harness/golden/recipe_changes.h"

#include <algorithm>
#include <set>

#include "harness/base/error.h"
#include "harness/scenario/schema.h"
#include "harness/scenario/train_reading.h"

namespace lockstep::golden {
namespace {

/// A training of an older version, with the keys that have been added since.
Json with_todays_defaults(const Json& train, const char* definition) {
  try {
    return scenario::complete(train, definition, {.file = "golden", .within = ""});
  } catch (const InputError&) {
    return train;  // it has keys that are gone
  }
}

}  // namespace

std::vector<scenario::Change> changes_of_recipe(const Entry& golden, const scenario::Variant& variant) {
  const char* const definition = variant.recipe_definition();
  Json before = with_todays_defaults(golden.recipe, definition);
  Json now = variant.recipe_json();
  for (Json* recipe : {&before, &now}) recipe->erase("record");  // it changes nothing of what is computed
  return scenario::changes_between(before, now, {definition});
}

std::vector<std::string> changed_keys(const Entry& golden, const scenario::Variant& variant) {
  std::vector<std::string> texts;
  for (const scenario::Change& change : changes_of_recipe(golden, variant)) {
    if (!is_left_out_of_digest(change.path(), variant)) texts.push_back(change.text());
  }
  return texts;
}

bool is_left_out_of_digest(const std::string& path, const scenario::Variant& variant) {
  static const std::set<std::string> kLeftOut = {"train.checkpoint.load.file",
                                                 "train.checkpoint.load.from",
                                                 "train.checkpoint.follow",
                                                 "program.directory",
                                                 "program.inputs",
                                                 "program.alone",
                                                 "program.float64"};
  const std::vector<scenario::DataFile> files = scenario::files_of(variant.train.data);
  return kLeftOut.contains(path) || std::any_of(files.begin(), files.end(), [&](const scenario::DataFile& file) {
           return path == "train.data." + std::string(file.option);
         });
}

}  // namespace lockstep::golden
