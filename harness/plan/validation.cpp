#include "harness/plan/validation.h"

#include <cstdint>
#include <map>
#include <tuple>

#include "harness/base/files.h"
#include "harness/scenario/train_reading.h"

namespace lockstep::plan {
namespace {

enum class Wanted { kFile, kFolder, kEither };

/// A file or folder that a variant needs.
struct NamedFile {
  std::string key;             ///< "train.data.path"
  std::string path;            ///< as written
  std::filesystem::path file;  ///< where that is
  Wanted wanted = Wanted::kFile;
};

std::vector<NamedFile> files_of(const scenario::Scenario& scenario, const scenario::Variant& variant) {
  std::vector<NamedFile> files;
  const auto add = [&](const std::string& key, const std::string& path, const std::filesystem::path& file,
                       Wanted wanted) {
    files.push_back({key, path, file, wanted});
  };
  if (variant.program) {
    const std::filesystem::path directory = file_of(scenario, variant.program->directory);
    for (const std::string& input : variant.program->inputs)
      add("program.inputs", input, (directory / input).lexically_normal(), Wanted::kEither);
    return files;
  }
  const recipe::DataChoice& data = variant.train.data;
  for (const scenario::DataFile& of : scenario::files_of(data)) {
    const auto path = data.options.at(of.option).get<std::string>();
    add("train.data." + of.option, path, file_of(scenario, path), of.is_folder ? Wanted::kFolder : Wanted::kFile);
  }
  if (const auto& load = variant.train.checkpoint.load; load && !load->file.empty())
    add("train.checkpoint.load.file", load->file, file_of(scenario, load->file), Wanted::kFile);
  return files;
}

/// What is wrong with a file that is needed, before anybody reads it; empty: nothing.
std::string fault_of(const NamedFile& named) {
  if (!is_there(named.file)) return "nothing in " + named.file.string();
  const bool is_folder_there = is_folder(named.file);
  if (named.wanted == Wanted::kFile && is_folder_there) return "a folder, " + named.file.string();
  if (named.wanted == Wanted::kFolder && !is_folder_there) return "no folder, " + named.file.string();
  if (is_folder_there) return "";
  const std::uintmax_t size = bytes_in_file(named.file);
  return size <= kMostFileBytes ? "" : std::to_string(size) + " bytes in " + named.file.string();
}

std::string words_for(Wanted wanted) {
  switch (wanted) {
    case Wanted::kFile:
      return "a file";
    case Wanted::kFolder:
      return "a folder";
    case Wanted::kEither:
      return "a file or folder";
  }
  return "";
}

/// A file that is missing, or no file, is told once, with the first variant that names it.
void require_files(const scenario::Scenario& scenario, Problems& problems) {
  std::map<std::tuple<std::string, std::string, Wanted>, std::vector<std::string>> missing;  // variants by key and text
  for (const scenario::Variant& variant : scenario.variants) {
    if (variant.program && !is_folder(file_of(scenario, variant.program->directory))) {
      problems.add({.what = "the folder to start the program in is missing",
                    .where = scenario.file.string() + ": program.directory",
                    .expected = "a folder, relative to the scenario's file",
                    .actual = file_of(scenario, variant.program->directory).string(),
                    .next = ""});
      continue;
    }
    for (const NamedFile& named : files_of(scenario, variant)) {
      const std::string fault = fault_of(named);
      if (!fault.empty()) missing[{named.key, "'" + named.path + "': " + fault, named.wanted}].push_back(variant.name);
    }
  }
  for (const auto& [named, variants] : missing) {
    const auto& [key, fault, wanted] = named;
    const std::string more = variants.size() > 1 ? " and " + std::to_string(variants.size() - 1) + " more" : "";
    const std::string from = key == "program.inputs" ? "the program" : "the scenario";
    problems.add({.what = "a file that the scenario names is missing or unreadable",
                  .where = scenario.file.string() + ": " + key + " (variant '" + variants[0] + "'" + more + ")",
                  .expected = words_for(wanted) + ", named from the folder of " + from + ", of at most " +
                              std::to_string(kMostFileBytes >> 30) + " GiB",
                  .actual = fault,
                  .next = "correct " + key + ", or put the file there"});
  }
}

}  // namespace

std::filesystem::path file_of(const scenario::Scenario& scenario, const std::string& path) {
  return (std::filesystem::absolute(scenario.file).parent_path() / path).lexically_normal();
}

void validate(const std::vector<scenario::Scenario>& scenarios, Problems& problems) {
  std::map<std::string, std::string> by_name;
  for (const scenario::Scenario& scenario : scenarios) {
    const auto [other, fresh] = by_name.emplace(scenario.name, scenario.file.string());
    if (!fresh && !scenario.name.empty())
      problems.add({.what = "two scenarios have the same name, '" + scenario.name + "'",
                    .where = scenario.file.string() + " and " + other->second,
                    .expected = "",
                    .actual = "",
                    .next = "rename one of them: goldens and results go by that name"});
    problems.collect([&] { require_files(scenario, problems); });
  }
}

}  // namespace lockstep::plan
