#include "harness/train/loop/checkpoint.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/hash.h"
#include "harness/base/text.h"
#include "harness/scenario/schema.h"
#include "harness/trace/safetensors.h"
#include "harness/train/device/tensors.h"
#include "harness/train/files/file_kind.h"
#include "harness/train/files/torch_file.h"

namespace lockstep::train {
namespace {

constexpr const char* kCheckpointFormat = "lockstep.checkpoint/4";

/// More than any model has: what a bucket names is reserved memory for.
constexpr std::size_t kMostParameters = 10'000'000;

/// What a rank has of its own: its place in the data, its generators' states and its buffers.
std::string rank_file(std::int64_t rank) { return "rank" + std::to_string(rank) + ".safetensors"; }

constexpr std::string_view kBuffer = "buffer.";

/// The state of a generator that the sampler has for itself.
constexpr const char* kSamplerRng = "rng.sampler";

/// The state of the device's own default generator.
constexpr const char* kDeviceRng = "rng.device";

/// A rank's place in the data, as numbers: shares may be unequal.
constexpr const char* kPlace = "data.place";

at::Tensor place_of(const Checkpoint& checkpoint) {
  const LoaderPosition& at = checkpoint.position;
  return at::tensor({at.epoch, at.position, at.batches, std::int64_t{at.ended ? 1 : 0}, checkpoint.samples_taken},
                    at::kLong);
}

std::string packed(const std::vector<NamedTensor>& tensors) {
  std::vector<trace::StoredTensor> stored;
  for (const NamedTensor& entry : tensors) {
    const at::Tensor dense = entry.tensor.detach().cpu().contiguous();
    stored.push_back({.name = entry.name,
                      .dtype = dtype_of(dense.scalar_type()),
                      .shape = dense.sizes().vec(),
                      .bytes = std::string(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes())});
  }
  return trace::to_safetensors(stored);
}

std::vector<NamedTensor> unpacked(const std::vector<trace::StoredTensor>& file) {
  std::vector<NamedTensor> tensors;
  for (const trace::StoredTensor& stored : file) {
    at::Tensor tensor = at::empty(stored.shape, scalar_type_of(stored.dtype));
    std::memcpy(tensor.mutable_data_ptr(), stored.bytes.data(), stored.bytes.size());
    tensors.push_back({stored.name, tensor});
  }
  return tensors;
}

at::Tensor named(const std::vector<NamedTensor>& tensors, const std::string& name, const std::filesystem::path& file) {
  for (const NamedTensor& entry : tensors) {
    if (entry.name == name) return entry.tensor;
  }
  throw DamagedFile({.what = "a tensor is missing from the checkpoint", .where = file.string(), .expected = name});
}

/// Content of a file that must be there. Whoever loads a checkpoint knows that it was saved.
std::string content_of(const std::filesystem::path& file) {
  try {
    return read_file(file);
  } catch (const InputError& error) {
    throw DamagedFile({.what = "a file of the checkpoint is lost: " + error.problem().what, .where = file.string()});
  }
}

std::string bits_of(double value) { return to_hex(std::bit_cast<std::uint64_t>(value)); }

double from_bits(const Json& bits) { return std::bit_cast<double>(from_hex(bits.get<std::string>()).value()); }

Json to_json(const std::vector<Rate>& rates) {
  Json all = Json::array();
  for (const Rate& rate : rates) {
    all.push_back({{"readable", to_decimal(rate.current)},
                   {"current_bits", bits_of(rate.current)},
                   {"initial_bits", bits_of(rate.initial)}});
  }
  return all;
}

std::vector<Rate> rates_from(const Json& all) {
  std::vector<Rate> rates;
  for (const Json& one : all)
    rates.push_back({.initial = from_bits(one.at("initial_bits")), .current = from_bits(one.at("current_bits"))});
  return rates;
}

/// Guards everything else in state.json against changes that still parse.
std::string seal_of(Json state) {
  state.erase("seal");
  return sha256(state.dump());
}

/// Files of a checkpoint but for state.json.
std::vector<std::string> files_of(std::int64_t world_size) {
  std::vector<std::string> names{"weights.safetensors", "optimizer.safetensors", "ema.safetensors"};
  for (std::int64_t rank = 0; rank < world_size; ++rank) names.push_back(rank_file(rank));
  return names;
}

/// `hashes`: of each file.
Json state_of(const Checkpoint& checkpoint, const Json& hashes) {
  Json optimizer = checkpoint.recipe.options;
  optimizer["kind"] = name_of(checkpoint.recipe.kind);
  Json state = {{"format", kCheckpointFormat},
                {"world_size", checkpoint.world_size},
                {"updates", checkpoint.updates},
                {"samples_taken", checkpoint.samples_taken},
                {"skipped", checkpoint.skipped},
                {"schedule", {{"steps", checkpoint.rates.steps}, {"state", checkpoint.rates.schedule}}},
                {"learning_rates", to_json(checkpoint.rates.rates)},
                {"epoch", checkpoint.position.epoch},
                {"position", checkpoint.position.position},
                {"batches_before_epoch", checkpoint.position.batches},
                {"epoch_ended", checkpoint.position.ended},
                {"optimizer", optimizer},
                {"buckets", checkpoint.buckets},
                {"sha256", hashes}};
  state["seal"] = seal_of(state);
  return state;
}

void verify(const std::filesystem::path& file, const std::string& expected, const std::string& actual) {
  if (actual == expected) return;
  throw DamagedFile({.what = "a file of the checkpoint is damaged",
                     .where = file.string(),
                     .expected = "SHA-256 " + expected,
                     .actual = "SHA-256 " + actual});
}

/// The content of state.json, whole, of this version, and such as a save can have written.
/// *Throws*: DamagedFile: nobody but lockstep writes these; InputError for another version's.
Json sealed_state(const std::filesystem::path& file) {
  Json state;
  try {
    state = parse_modest_json(content_of(file), file.string());
    if (!state.is_object() || !state.contains("seal") || !state["seal"].is_string())
      throw InputError(
          {.what = "there is no seal", .where = file.string(), .expected = "an object with the key 'seal'"});
    verify(file, state["seal"].get<std::string>(), seal_of(state));
    if (state.value("format", Json()) == kCheckpointFormat) {
      state.erase("seal");
      return scenario::complete(state, "saved_state", {.file = file.string(), .within = ""});
    }
  } catch (const InputError& error) {
    Problem problem = error.problem();
    problem.what = "the checkpoint's state cannot be read: " + problem.what;
    throw DamagedFile(problem);
  }
  throw InputError({.what = "this version cannot read this checkpoint",
                    .where = file.string(),
                    .expected = kCheckpointFormat,
                    .actual = state.value("format", Json()).dump()});
}

/// Each parameter's index once, and no bucket without one.
bool is_layout(const Json& buckets) {
  std::vector<bool> seen;
  for (const Json& bucket : buckets) {
    if (!bucket.is_array() || bucket.empty()) return false;
    for (const Json& index : bucket) {
      if (!index.is_number_unsigned() || index.get<std::size_t>() > kMostParameters) return false;
      seen.resize(std::max(seen.size(), index.get<std::size_t>() + 1), false);
      if (seen[index.get<std::size_t>()]) return false;
      seen[index.get<std::size_t>()] = true;
    }
  }
  return std::all_of(seen.begin(), seen.end(), [](bool here) { return here; });
}

/// What the schema cannot say of a state, whatever its seal says.
void require_possible_state(const Json& state, const std::filesystem::path& file) {
  const auto require = [&](bool holds, const std::string& key, const std::string& expected, const std::string& actual) {
    if (holds) return;
    throw DamagedFile({.what = "the checkpoint's state has an impossible " + key,
                       .where = file.string(),
                       .expected = expected,
                       .actual = actual});
  };
  require(is_layout(state.at("buckets")), "buckets", "each parameter once, no empty bucket", "another list");
  const std::size_t groups = 1 + state.at("optimizer").at("groups").size();
  const std::size_t rates = state.at("learning_rates").size();
  require(rates == groups, "learning_rates", std::to_string(groups) + ", one for each parameter group",
          std::to_string(rates));
  for (const Rate& rate : rates_from(state.at("learning_rates")))
    require(std::isfinite(rate.initial) && std::isfinite(rate.current), "learning_rates", "numbers", "NaN or infinity");
  std::vector<std::string> names = files_of(state.at("world_size").get<std::int64_t>());
  std::sort(names.begin(), names.end());
  require(keys_of(state.at("sha256")) == names, "sha256", "that of " + join(names, ", "),
          join(keys_of(state.at("sha256")), ", "));
}

/// What a file of a checkpoint holds; it has the hash that the state says.
std::string verified(const Json& state, const std::filesystem::path& file) {
  const Json& hash = state.at("sha256").at(file.filename().string());
  std::string content = content_of(file);
  verify(file, hash.is_string() ? hash.get<std::string>() : hash.dump(), sha256(content));
  return content;
}

/// The rank's own place instead of rank 0's.
void take_place(const at::Tensor& place, Checkpoint& checkpoint, const std::filesystem::path& file) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;  // as in state.json
  const bool whole = place.scalar_type() == at::kLong && place.sizes() == at::IntArrayRef({5}) &&
                     !place.lt(-1).logical_or(place.gt(kMost)).any().item<bool>();
  const auto at = [&](std::int64_t i) { return place[i].item<std::int64_t>(); };
  if (!whole || at(1) < 0 || at(2) < 0 || at(4) < 0 || (at(3) != 0 && at(3) != 1))
    throw DamagedFile({.what = "the checkpoint holds an impossible place in the data",
                       .where = file.string(),
                       .expected = std::string(kPlace) + ": epoch, position, batches, ended, samples taken"});
  checkpoint.position.epoch = at(0);
  checkpoint.position.position = at(1);
  checkpoint.position.batches = at(2);
  checkpoint.position.ended = at(3) == 1;
  checkpoint.samples_taken = at(4);
}

/// A generator's state that a generator takes.
at::Tensor generator_state(const at::Tensor& state, const std::string& name, const std::filesystem::path& file) {
  try {
    at::detail::createCPUGenerator().set_state(state);
  } catch (const c10::Error&) {
    throw DamagedFile({.what = "the checkpoint holds a state that no generator can have",
                       .where = file.string(),
                       .expected = "the state of a CPU generator",
                       .actual = name});
  }
  return state;
}

}  // namespace

void save_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint, std::int64_t rank,
                     Collective& collective) {
  make_directories(folder);
  std::vector<NamedTensor> own{{"rng.now", checkpoint.rng}, {kPlace, place_of(checkpoint)}};
  if (checkpoint.position.sampler_rng.defined()) own.push_back({kSamplerRng, checkpoint.position.sampler_rng});
  if (checkpoint.position.epoch_rng.defined()) own.push_back({"rng.epoch", checkpoint.position.epoch_rng});
  if (checkpoint.device_rng.defined()) own.push_back({kDeviceRng, checkpoint.device_rng});
  for (const NamedTensor& buffer : checkpoint.buffers)
    own.push_back({std::string(kBuffer) + buffer.name, buffer.tensor});
  Json hashes = Json::object();
  const auto write = [&](const std::string& name, const std::vector<NamedTensor>& tensors) {
    const std::string content = packed(tensors);
    write_file(folder / name, content);
    hashes[name] = sha256(content);
  };
  write(rank_file(rank), own);
  if (rank == 0) {
    write("weights.safetensors", checkpoint.weights);
    write("optimizer.safetensors", checkpoint.optimizer);
    write("ema.safetensors", checkpoint.ema);
  }
  collective.barrier();
  if (rank == 0) {
    for (std::int64_t other = 1; other < checkpoint.world_size; ++other)
      hashes[rank_file(other)] = sha256(content_of(folder / rank_file(other)));
    write_file(folder / "state.json", state_of(checkpoint, hashes).dump(2) + "\n");
  }
  collective.barrier();
}

Checkpoint load_checkpoint(const std::filesystem::path& folder, std::int64_t rank, std::int64_t world_size,
                           bool per_rank) {
  try {
    const Json state = sealed_state(folder / "state.json");
    require_possible_state(state, folder / "state.json");
    const auto tensors_of = [&](const std::string& name) {
      return unpacked(trace::from_safetensors(verified(state, folder / name), folder / name));
    };
    Checkpoint checkpoint{.origin = folder,
                          .world_size = state.at("world_size").get<std::int64_t>(),
                          .updates = state.at("updates").get<std::int64_t>(),
                          .samples_taken = state.at("samples_taken").get<std::int64_t>(),
                          .skipped = state.at("skipped").get<std::int64_t>(),
                          .rates = {.steps = state.at("schedule").at("steps").get<std::int64_t>(),
                                    .rates = rates_from(state.at("learning_rates")),
                                    .schedule = state.at("schedule").at("state")},
                          .buckets = state.at("buckets").get<BucketLayout>(),
                          .weights = tensors_of("weights.safetensors"),
                          .optimizer = tensors_of("optimizer.safetensors"),
                          .ema = tensors_of("ema.safetensors")};
    checkpoint.position = {.epoch = state.at("epoch").get<std::int64_t>(),
                           .position = state.at("position").get<std::int64_t>(),
                           .batches = state.at("batches_before_epoch").get<std::int64_t>(),
                           .ended = state.at("epoch_ended").get<bool>()};
    checkpoint.recipe = recipe::choice_from<recipe::OptimizerKind>(state.at("optimizer"));
    checkpoint.recipe.options.erase("kind");
    const std::int64_t mine = checkpoint.world_size == world_size ? rank : 0;  // rank 0's, which the others follow
    const std::vector<NamedTensor> own = tensors_of(rank_file(mine));
    for (std::int64_t other = 0; other < checkpoint.world_size; ++other) {
      if (other != mine) verified(state, folder / rank_file(other));
    }
    for (const NamedTensor& tensor : own) {
      if (tensor.name == kSamplerRng) checkpoint.position.sampler_rng = tensor.tensor;
    }
    if (checkpoint.world_size != world_size) {
      if (!per_rank) return checkpoint;
      throw InputError({.what = "generators, buckets and buffers cannot be restored at another world size",
                        .where = folder.string(),
                        .expected = "world size " + std::to_string(checkpoint.world_size),
                        .actual = "world size " + std::to_string(world_size),
                        .next = "leave rng, buckets and buffers out of train.checkpoint.load.restore"});
    }
    take_place(named(own, kPlace, folder / rank_file(rank)), checkpoint, folder / rank_file(rank));
    for (const auto& [name, state] :
         {std::pair("rng.now", &checkpoint.rng), std::pair("rng.epoch", &checkpoint.position.epoch_rng)})
      *state = generator_state(named(own, name, folder / rank_file(rank)), name, folder / rank_file(rank));
    for (const NamedTensor& tensor : own) {
      if (tensor.name == kDeviceRng) checkpoint.device_rng = tensor.tensor;
      if (tensor.name.starts_with(kBuffer))
        checkpoint.buffers.push_back({tensor.name.substr(kBuffer.size()), tensor.tensor});
    }
    return checkpoint;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw DamagedFile({.what = std::string("the checkpoint's state cannot be read: ") + error.what(),
                       .where = (folder / "state.json").string()});
  }
}

Checkpoint in_precision(Checkpoint checkpoint, at::ScalarType precision) {
  for (std::vector<NamedTensor>* tensors :
       {&checkpoint.weights, &checkpoint.optimizer, &checkpoint.ema, &checkpoint.buffers}) {
    for (NamedTensor& one : *tensors) {
      const bool counts = one.name.ends_with(".step") && one.tensor.dim() == 0;
      if (one.tensor.is_floating_point() && !counts) one.tensor = one.tensor.to(precision);
    }
  }
  return checkpoint;
}

std::vector<NamedTensor> read_weights(const std::filesystem::path& file, const std::string& under) {
  if (format_of_weights(file) == WeightsFormat::kTorch) return read_torch_file(file, under);
  return unpacked(trace::read_safetensors(file));
}

void write_weights(const std::filesystem::path& file, const std::vector<NamedTensor>& weights) {
  write_file(file, packed(weights));
}

void take_from(const Checkpoint& checkpoint, const std::function<void()>& take) {
  try {
    take();
  } catch (const InputError& error) {
    Problem problem = error.problem();
    problem.where = checkpoint.origin.string() + (problem.where.empty() ? "" : ", " + problem.where);
    throw InputError(problem);
  }
}

void copy_weights(const std::vector<NamedTensor>& saved, const std::vector<NamedTensor>& model) {
  const at::NoGradGuard no_grad;
  for (const NamedTensor& source : saved) {
    const auto target =
        std::find_if(model.begin(), model.end(), [&](const NamedTensor& m) { return m.name == source.name; });
    if (target == model.end())
      throw InputError({.what = "the checkpoint has a tensor that the model lacks", .actual = source.name});
    if (source.tensor.sizes() != target->tensor.sizes() ||
        source.tensor.scalar_type() != target->tensor.scalar_type()) {
      throw InputError({.what = "a tensor of the checkpoint does not fit the model",
                        .where = source.name,
                        .expected = c10::str(target->tensor.scalar_type(), target->tensor.sizes()),
                        .actual = c10::str(source.tensor.scalar_type(), source.tensor.sizes())});
    }
    at::Tensor(target->tensor).copy_(source.tensor);
  }
}

}  // namespace lockstep::train
