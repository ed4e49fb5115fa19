#include "harness/record/c_arguments.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/trace/header.h"
#include "harness/trace/reader.h"

namespace lockstep::record {
namespace {

using trace::DType;

[[noreturn]] void refuse(std::string what, std::string expected, std::string actual = "", std::string next = "") {
  throw InputError(
      {.what = std::move(what), .expected = std::move(expected), .actual = std::move(actual), .next = std::move(next)});
}

bool is_utf8(const std::string& text) {
  try {
    Json(text).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

// ---- the header

/// What the recorder or a golden says in a first line.
constexpr std::array<std::string_view, 5> kReservedKeys = {"format", "rank", "world_size", "check", "golden"};

Json header_from(const char* text) {
  if (text == nullptr) return Json::object();
  Json header = parse_modest_json(text, "header");
  if (!header.is_object()) refuse("the header is no JSON object", "an object", header.type_name());
  for (const std::string_view key : kReservedKeys) {
    if (header.contains(key))
      refuse("the header may not hold the key '" + std::string(key) + "'",
             "keys other than this one, which lockstep writes");
  }
  if (const auto fault = trace::fault_of_header(header))
    refuse("the header's '" + fault->key + "' has another type", fault->expected, header[fault->key].dump());
  return header;
}

// ---- the configuration

/// The caller's struct as this library knows it. A later header's is longer; what lies behind must say nothing.
lockstep_recorder_config known_part(const lockstep_recorder_config* config) {
  require_there(config, "config");
  if (config->size < sizeof *config)
    refuse("config->size is too small", "sizeof(lockstep_recorder_config)", std::to_string(config->size));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(config);
  if (std::any_of(bytes + sizeof *config, bytes + config->size, [](unsigned char byte) { return byte != 0; }))
    refuse("config sets fields that this version of the library does not know",
           "zeros after byte " + std::to_string(sizeof *config), "",
           "use the library that belongs to the header, or set config->size");
  return *config;
}

Selection selection_from(const lockstep_recorder_config& config) {
  Selection selection;
  if (config.every < 0) refuse("config->every is negative", "0 or more", std::to_string(config.every));
  if (config.every > 0) selection.every = config.every;
  const std::vector<trace::Channel> all = trace::all_channels();
  if (config.channels == nullptr) selection.channels.insert(all.begin(), all.end());
  for (std::size_t i = 0; config.channels != nullptr && i < config.channel_count; ++i)
    selection.channels.insert(channel_from(config.channels[i]));
  return selection;
}

// ---- tensors

/// C lets a field of an enum hold any number; to load one that is none of its values is undefined in C++.
DType dtype_from(const lockstep_dtype& field) {
  int code = 0;
  static_assert(sizeof code == sizeof field);
  std::memcpy(&code, &field, sizeof code);
  switch (code) {
    case LOCKSTEP_BOOL:
      return DType::kBool;
    case LOCKSTEP_UINT8:
      return DType::kUInt8;
    case LOCKSTEP_INT8:
      return DType::kInt8;
    case LOCKSTEP_INT16:
      return DType::kInt16;
    case LOCKSTEP_INT32:
      return DType::kInt32;
    case LOCKSTEP_INT64:
      return DType::kInt64;
    case LOCKSTEP_FLOAT16:
      return DType::kFloat16;
    case LOCKSTEP_BFLOAT16:
      return DType::kBFloat16;
    case LOCKSTEP_FLOAT32:
      return DType::kFloat32;
    case LOCKSTEP_FLOAT64:
      return DType::kFloat64;
  }
  refuse("the tensor has an unknown dtype", "a value of lockstep_dtype", std::to_string(code));
}

/// More than any framework has; an argument that was never set is caught before its shape is read.
constexpr std::size_t kMostDimensions = 64;

std::string shown(std::span<const std::int64_t> numbers) {
  return "[" + listed(std::vector(numbers.begin(), numbers.end())) + "]";
}

/// Zeros count as ones: products of a part of the extents must not overflow either.
void require_possible(std::span<const std::int64_t> shape, std::size_t element) {
  auto bytes = static_cast<std::int64_t>(element);
  for (const std::int64_t extent : shape) {
    if (extent < 0) refuse("the tensor has a negative extent", "extents of 0 or more", shown(shape));
    if (extent > 0 && __builtin_mul_overflow(bytes, extent, &bytes))
      refuse("the tensor is larger than any memory", "fewer than 2^63 bytes", "shape " + shown(shape));
  }
}

/// No offset of an element may overflow.
void require_reachable(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides,
                       std::size_t element) {
  std::int64_t below = 0, above = 0;  // bytes, from element 0, …, 0
  for (std::size_t i = 0; i < strides.size(); ++i) {
    std::int64_t reach = 0;
    const bool overflows =
        shape[i] > 1 && (__builtin_mul_overflow(strides[i], static_cast<std::int64_t>(element), &reach) ||
                         __builtin_mul_overflow(reach, shape[i] - 1, &reach) ||
                         __builtin_add_overflow(reach < 0 ? below : above, reach, reach < 0 ? &below : &above));
    if (overflows)
      refuse("the tensor's strides reach beyond memory", "offsets of less than 2^63 bytes",
             "strides " + shown(strides));
  }
}

}  // namespace

Opening opening_from(const lockstep_recorder_config* given) {
  const lockstep_recorder_config config = known_part(given);
  require_there(config.folder, "config->folder");
  if (*config.folder == '\0') refuse("config->folder is empty", "the folder of the run");
  if (config.world_size < 1 || config.rank < 0 || config.rank >= config.world_size)
    refuse("the rank is outside its world size", "0 <= rank < world_size",
           "rank " + std::to_string(config.rank) + " of " + std::to_string(config.world_size));
  const std::filesystem::path file = std::filesystem::path(config.folder) / trace::file_name_of_rank(config.rank);
  std::error_code unknown;  // a path that cannot be looked up cannot be made either, which says why
  if (std::filesystem::exists(std::filesystem::symlink_status(file, unknown)))
    throw InputError({.what = "a trace already exists",
                      .where = file.string(),
                      .next = "choose a new folder: traces are never overwritten"});
  return {.file = file,
          .rank = config.rank,
          .world_size = config.world_size,
          .header = header_from(config.header),
          .selection = selection_from(config)};
}

void require_there(const void* pointer, const std::string& argument) {
  if (pointer == nullptr) refuse(argument + " is NULL", "a pointer");
}

void require_array(const std::int64_t* values, std::size_t count) {
  if (count > 0) require_there(values, "values");
  if (count > std::numeric_limits<std::ptrdiff_t>::max() / sizeof *values)
    refuse("there are more integers than any memory holds", "fewer than 2^63 bytes", std::to_string(count));
}

trace::Channel channel_from(const char* name) {
  require_there(name, "channel");
  if (const auto channel = trace::channel_named(name)) return *channel;
  refuse("unknown channel '" + std::string(name) + "'", "one of: " + join(trace::channel_names(), ", "), "",
         suggest(name, trace::channel_names()));
}

std::string name_from(const char* name) {
  require_there(name, "name");
  if (*name == '\0') refuse("the record has an empty name", "a name to find the record by");
  if (!is_utf8(name)) refuse("the record's name is no UTF-8", "UTF-8", name);
  return name;
}

TensorView view_from(const lockstep_tensor* tensor) {
  require_there(tensor, "tensor");
  TensorView view{.data = tensor->data, .dtype = dtype_from(tensor->dtype), .shape = {}, .strides = {}};
  if (tensor->dimensions > 0) require_there(tensor->shape, "tensor->shape");
  if (tensor->dimensions > kMostDimensions)
    refuse("the tensor has too many dimensions", "at most " + std::to_string(kMostDimensions),
           std::to_string(tensor->dimensions));
  view.shape = {tensor->shape, tensor->dimensions};
  if (tensor->strides != nullptr) view.strides = {tensor->strides, tensor->dimensions};
  const std::size_t element = trace::bytes_of(view.dtype);
  require_possible(view.shape, element);
  require_reachable(view.shape, view.strides, element);
  if (std::find(view.shape.begin(), view.shape.end(), 0) == view.shape.end()) require_there(view.data, "tensor->data");
  if (reinterpret_cast<std::uintptr_t>(view.data) % element != 0)
    refuse("the tensor's data are not aligned", "an address that " + std::to_string(element) + " divides");
  return view;
}

std::optional<trace::Shard> shard_from(const lockstep_shard& given, std::span<const std::int64_t> shape) {
  if (given.whole == nullptr) return std::nullopt;
  if (!shape.empty()) require_there(given.offset, "shard->offset");
  if (given.mesh_dimensions > 0) require_there(given.coordinate, "shard->coordinate");
  if (given.mesh_dimensions > kMostDimensions)
    refuse("the shard has too many dimensions of ranks", "at most " + std::to_string(kMostDimensions),
           std::to_string(given.mesh_dimensions));
  trace::Shard shard{.whole = {given.whole, given.whole + shape.size()},
                     .offset = {given.offset, given.offset + shape.size()},
                     .mesh = given.mesh == nullptr ? "" : given.mesh,
                     .placements = given.placements == nullptr ? "" : given.placements,
                     .coordinate = {given.coordinate, given.coordinate + given.mesh_dimensions}};
  require_possible(shard.whole, sizeof(double));
  if (!trace::fits(shard, shape))
    refuse("the shard does not lie in its tensor", "offset + extent of at most the whole extent, in each dimension",
           "offset " + shown(shard.offset) + ", extents " + shown(shape) + " of " + shown(shard.whole));
  return shard;
}

}  // namespace lockstep::record
