#include "harness/train/loop/run_spec.h"

#include "harness/base/build_id.h"
#include "harness/base/error.h"
#include "harness/scenario/schema.h"
#include "harness/scenario/train_reading.h"

namespace lockstep::train {
namespace {

constexpr const char* kRunFormat = "lockstep.run/1";

void require_format(const Json& document, const std::filesystem::path& file) {
  const std::string format = document.is_object() ? document.value("format", "") : "";
  if (format != kRunFormat) {
    throw InputError({.what = "this worker cannot read this RunSpec",
                      .where = file.string(),
                      .expected = kRunFormat,
                      .actual = format.empty() ? "no format" : format});
  }
  const std::string build = document.value("build", "");
  if (build != build_id()) {
    throw InputError({.what = "lockstep and its worker belong to different builds",
                      .where = file.string(),
                      .expected = std::string("build ") + build_id() + " (this worker)",
                      .actual = "build " + build + " (lockstep)",
                      .next = "build both again: ci/build"});
  }
}

}  // namespace

RunSpec read_run_spec(const std::filesystem::path& file) {
  const Json document = read_json(file);
  require_format(document, file);
  try {
    const Json files = document.at("files");
    const std::filesystem::path here = std::filesystem::absolute(file).parent_path();
    RunSpec spec{.scenario = document.at("scenario").get<std::string>(),
                 .variant = document.at("variant").get<std::string>(),
                 .train_digest = document.at("train_digest").get<std::string>(),
                 .repeat = document.at("repeat").get<std::int64_t>(),
                 .world_size = document.at("world_size").get<std::int64_t>(),
                 .train = scenario::train_spec_from(
                     scenario::complete(document.at("train"), "train", {.file = file.string(), .within = ""}))};
    scenario::validate(spec.train, spec.world_size, file.string());
    for (const scenario::DataFile& of : scenario::files_of(spec.train.data))
      spec.train.data.options[of.option] = (here / files.at(of.name).get<std::string>()).string();
    if (files.contains("weights")) spec.weights_file = here / files["weights"].get<std::string>();
    if (files.contains("checkpoint"))
      spec.checkpoint_from = (here / files["checkpoint"].get<std::string>()).lexically_normal();
    if (files.contains("followed")) {
      spec.followed = (here / files["followed"].get<std::string>()).lexically_normal();
      spec.followed_after = document.at("followed_after").get<std::int64_t>();
    }
    return spec;
  } catch (const Json::exception& error) {
    throw InputError({.what = std::string("a RunSpec is incomplete: ") + error.what(), .where = file.string()});
  }
}

}  // namespace lockstep::train
