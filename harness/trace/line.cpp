#include "harness/trace/line.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <stdexcept>

#include "harness/base/hash.h"
#include "harness/base/text.h"

namespace lockstep::trace {
namespace {

constexpr std::string_view kCheckKey = ",\"check\":\"";
constexpr std::size_t kTailSize = kCheckKey.size() + 16 + 2;  // key, 16 digits, quote and brace

void append_bits(std::string& out, double value) { append_hex(out, std::bit_cast<std::uint64_t>(value)); }

/// JSON text. Bytes that are no UTF-8 become U+FFFD: a strange name must not end a training, and digests tell such
/// records apart all the same.
std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// A JSON string; names of tensors hardly ever need an escape.
void append_quoted(std::string& out, const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(),
                                 [](unsigned char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
  if (plain) {
    out.append(1, '"').append(text).append(1, '"');
  } else {
    out += dump(text);
  }
}

double double_from(std::string_view bits) {
  const auto value = from_hex(bits);
  if (!value) throw std::runtime_error("a float is not 16 hexadecimal digits");
  return std::bit_cast<double>(*value);
}

std::vector<std::uint64_t> values_from(std::string_view text, const char* what) {
  std::vector<std::uint64_t> values;
  for (std::size_t comma = 0; comma != std::string_view::npos;) {
    comma = text.find(',');
    const auto bits = from_base64(text.substr(0, comma));
    if (!bits) throw std::runtime_error(std::string(what) + " is not written as digits of base64url");
    values.push_back(*bits);
    if (comma != std::string_view::npos) text.remove_prefix(comma + 1);
  }
  return values;
}

std::vector<double> elements_from(std::string_view text) {
  std::vector<double> elements;
  for (const std::uint64_t bits : values_from(text, "an element")) elements.push_back(std::bit_cast<double>(bits));
  return elements;
}

Sketch sketch_from(std::string_view text, double norm, double max_abs) {
  Sketch sketch{.norm = norm, .max_abs = max_abs};
  for (std::size_t i = 0; i < Sketch::kBuckets; ++i) {
    const std::size_t comma = text.find(',');
    const auto bits = from_base64(text.substr(0, comma));
    if (!bits || (comma == std::string_view::npos) != (i + 1 == Sketch::kBuckets))
      throw std::runtime_error("a sketch does not have 32 buckets");
    sketch.buckets[i] = std::bit_cast<double>(*bits);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return sketch;
}

void append_integers(std::string& out, const std::vector<std::int64_t>& values) {
  out += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ',';
    std::array<char, 20> digits;
    out.append(digits.data(), std::to_chars(digits.begin(), digits.end(), values[i]).ptr);
  }
  out += ']';
}

/// Written by hand, not through Json: this runs in every step of every rank.
void append_record(std::string& out, const Record& record) {
  const auto append_key = [&out](std::string_view key) { out.append(",\"").append(key).append("\":"); };
  const auto append_number = [&](std::string_view key, double value) {
    append_key(key);
    out += '"';
    append_bits(out, value);
    out += '"';
  };
  out += "{\"name\":";
  append_quoted(out, record.name);
  out += ",\"digest\":\"";
  append_hex(out, record.digest.high);
  append_hex(out, record.digest.low);
  if (record.sum) {
    out += "\",\"sum\":\"";
    append_hex(out, record.sum->high);
    append_hex(out, record.sum->low);
  }
  out += "\",\"dtype\":\"";
  out += name_of(record.dtype);
  out += "\",\"shape\":";
  append_integers(out, record.shape);
  if (record.shard) {
    append_key("shard");
    out += "{\"of\":";
    append_integers(out, record.shard->whole);
    append_key("at");
    append_integers(out, record.shard->offset);
    append_key("mesh");
    append_quoted(out, record.shard->mesh);
    append_key("placements");
    append_quoted(out, record.shard->placements);
    append_key("coordinate");
    append_integers(out, record.shard->coordinate);
    out += '}';
  }
  if (record.norm) append_number("norm", *record.norm);
  if (record.max_abs) append_number("max", *record.max_abs);
  if (record.sketch) {
    append_key("sketch");
    out += '"';
    append_base64(out, std::bit_cast<std::array<std::uint64_t, Sketch::kBuckets>>(record.sketch->buckets));
    out += '"';
  }
  if (!record.elements.empty()) {
    std::vector<std::uint64_t> bits(record.elements.size());
    std::transform(record.elements.begin(), record.elements.end(), bits.begin(),
                   [](double element) { return std::bit_cast<std::uint64_t>(element); });
    append_key("elements");
    out += '"';
    append_base64(out, bits);
    out += '"';
  }
  if (!record.rows.empty()) {
    append_key("rows");
    out += '"';
    append_base64(out, record.rows);
    out += '"';
  }
  if (!record.integers.empty()) {
    append_key("integers");
    append_integers(out, record.integers);
  }
  if (record.number) {
    append_number("bits", *record.number);
    append_key("decimal");
    append_quoted(out, to_decimal(*record.number));
  }
  if (!record.text.empty()) {
    append_key("text");
    append_quoted(out, record.text);
  }
  out += '}';
}

/// A key's text, without a copy: records are many.
const std::string& text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) throw std::runtime_error("the key '" + std::string(key) + "' is missing");
  if (!found->is_string()) throw std::runtime_error("'" + std::string(key) + "' has the wrong type");
  return found->get_ref<const std::string&>();
}

Shard shard_from(const Json& object, const Record& record) {
  Shard shard{.whole = field<std::vector<std::int64_t>>(object, "of"),
              .offset = field<std::vector<std::int64_t>>(object, "at"),
              .mesh = field<std::string>(object, "mesh"),
              .placements = field<std::string>(object, "placements"),
              .coordinate = field<std::vector<std::int64_t>>(object, "coordinate")};
  if (!fits(shard, record.shape))
    throw std::runtime_error("the shard '" + record.name + "' does not lie in its tensor");
  return shard;
}

Record record_from(Channel channel, const Json& object) {
  Record record;
  record.channel = channel;
  record.name = field<std::string>(object, "name");
  const auto digest = digest_from(text_of(object, "digest"));
  const auto dtype = dtype_named(text_of(object, "dtype"));
  if (!digest) throw std::runtime_error("the digest of '" + record.name + "' is not 32 hexadecimal digits");
  if (!dtype) throw std::runtime_error("the dtype of '" + record.name + "' is unknown");
  record.digest = *digest;
  record.dtype = *dtype;
  record.shape = field<std::vector<std::int64_t>>(object, "shape");
  if (object.contains("sum")) {
    record.sum = digest_from(text_of(object, "sum"));
    if (!record.sum) throw std::runtime_error("the sum of '" + record.name + "' is not 32 hexadecimal digits");
  }
  if (const auto shard = object.find("shard"); shard != object.end()) {
    record.shard = shard_from(*shard, record);
    if (!record.sum) throw std::runtime_error("the shard '" + record.name + "' has no sum");
  }
  if (object.contains("norm")) record.norm = double_from(text_of(object, "norm"));
  if (object.contains("max")) record.max_abs = double_from(text_of(object, "max"));
  if (object.contains("sketch")) {
    record.sketch = sketch_from(text_of(object, "sketch"), record.norm.value_or(0), record.max_abs.value_or(0));
  }
  if (object.contains("elements")) record.elements = elements_from(text_of(object, "elements"));
  if (object.contains("rows")) record.rows = values_from(text_of(object, "rows"), "the digest of a row");
  if (object.contains("integers")) record.integers = field<std::vector<std::int64_t>>(object, "integers");
  if (object.contains("bits")) record.number = double_from(text_of(object, "bits"));
  if (object.contains("text")) record.text = field<std::string>(object, "text");
  return record;
}

}  // namespace

void seal(std::string& open_object) {
  const std::uint64_t guard = checksum(open_object);
  open_object += kCheckKey;
  open_object += to_hex(guard);
  open_object += "\"}\n";
}

bool is_sealed(std::string_view line) {
  if (line.size() < kTailSize || line.substr(line.size() - kTailSize, kCheckKey.size()) != kCheckKey) return false;
  if (line.substr(line.size() - 2) != "\"}") return false;
  return from_hex(line.substr(line.size() - 18, 16)) == checksum(line.substr(0, line.size() - kTailSize));
}

void LineBuilder::begin(std::int64_t step) {
  step_ = step;
  for (std::string& records : records_) records.clear();
}

void LineBuilder::add(const Record& record) {
  std::string& records = records_[static_cast<std::size_t>(record.channel)];
  records += records.empty() ? '[' : ',';
  append_record(records, record);
}

std::string LineBuilder::seal() {
  std::size_t size = 256;
  for (const std::string& records : records_) size += records.size() + 32;
  std::string line;
  line.reserve(size);
  line.append("{\"step\":").append(std::to_string(step_));
  for (std::size_t i = 0; i < records_.size(); ++i) {
    if (!records_[i].empty()) line.append(",\"").append(kChannels[i].name).append("\":").append(records_[i]) += ']';
  }
  trace::seal(line);
  return line;
}

std::string line_of(const Step& step) {
  LineBuilder line;
  line.begin(step.step);
  for (const Record& record : step.records) line.add(record);
  return line.seal();
}

std::string line_of_header(const Json& header) {
  std::string line = dump(header);
  line.pop_back();
  seal(line);
  return line;
}

std::string line_of_end(std::size_t lines, const std::string& sha256) {
  std::string line = "{\"end\":true,\"lines\":" + std::to_string(lines) + ",\"sha256\":\"" + sha256 + "\"";
  seal(line);
  return line;
}

Step step_from(const Json& object) {
  Step step;
  step.step = field<std::int64_t>(object, "step");
  std::size_t known = 2;  // "step" and "check"
  for (const ChannelInfo& row : kChannels) {
    const auto records = object.find(row.name);
    if (records == object.end()) continue;
    ++known;
    for (const Json& record : *records) step.records.push_back(record_from(row.channel, record));
  }
  if (known != object.size()) throw std::runtime_error("it has a channel that this version does not know");
  return step;
}

}  // namespace lockstep::trace
