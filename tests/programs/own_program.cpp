// A training program of somebody's own, in milliseconds: a line is fitted by momentum, and recorded through the C
// library as a recorder of Python would. Its ranks are in one process. Options plant mistakes.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/recorder.h"

namespace {

constexpr int kFeatures = 64, kSamples = 48, kBatch = 12;

/// Options of the command line: "--name value".
struct Options {
  std::map<std::string, std::string> given;
  std::string text(const std::string& name) const { return given.contains(name) ? given.at(name) : ""; }
  double number(const std::string& name, double otherwise) const {
    return given.contains(name) ? std::stod(given.at(name)) : otherwise;
  }
  bool loses(const std::string& part) const {
    return ("," + text("--lose") + ",").find("," + part + ",") != std::string::npos;
  }
  bool has_bug(const std::string& name) const { return text("--bug") == name; }
  /// Learning rate of an update: of a list, else of a rule.
  double rate(int update) const {
    std::istringstream rates(text("--rates"));
    std::string one;
    for (int i = 0; std::getline(rates, one, ','); ++i) {
      if (i == update) return std::stod(one);
    }
    return number("--lr", 0.1) * (given.contains("--decay") ? std::pow(0.9, update) : 1);
  }
};

void require(lockstep_status status, const lockstep_recorder* recorder) {
  if (status == LOCKSTEP_OK) return;
  std::fprintf(stderr, "own_program: %s\n", lockstep_recorder_error(recorder));
  std::exit(1);
}

template <typename Element>
constexpr lockstep_dtype kDType = sizeof(Element) == 8 ? LOCKSTEP_FLOAT64 : LOCKSTEP_FLOAT32;

/// The trace of one rank; records nothing without LOCKSTEP_RECORD.
class Trace {
 public:
  /// `facts`: members of a JSON object, for the first line.
  Trace(int rank, int world_size, const std::string& facts) {
    const char* const folder = std::getenv("LOCKSTEP_RECORD");
    if (folder == nullptr) return;
    const char* const told = std::getenv("LOCKSTEP_RECORD_HEADER");
    std::string header = told == nullptr ? "{\"x\": 0}" : told;
    header.insert(1, facts + ", ");
    const lockstep_recorder_config config = {
        .size = sizeof config, .folder = folder, .rank = rank, .world_size = world_size, .header = header.c_str()};
    require(lockstep_recorder_open(&config, &recorder_), nullptr);
  }

  void begin(int step) {
    if (recorder_ != nullptr) require(lockstep_recorder_begin_step(recorder_, step), recorder_);
  }
  void end() {
    if (recorder_ != nullptr) require(lockstep_recorder_end_step(recorder_), recorder_);
  }
  void close() {
    if (recorder_ != nullptr) require(lockstep_recorder_close(recorder_), recorder_);
  }

  template <typename Element>
  void tensor(const char* channel, const std::string& name, const std::vector<Element>& values) {
    const int64_t shape[] = {static_cast<int64_t>(values.size())};
    const lockstep_tensor view = {.dtype = kDType<Element>, .dimensions = 1, .shape = shape, .data = values.data()};
    record(channel, name, view);
  }
  template <typename Element>
  void scalar(const char* channel, const std::string& name, Element value) {
    record(channel, name, {.dtype = kDType<Element>, .data = &value});
  }
  void bytes(const char* channel, const std::string& name, const std::string& content) {
    const int64_t shape[] = {static_cast<int64_t>(content.size())};
    record(channel, name, {.dtype = LOCKSTEP_UINT8, .dimensions = 1, .shape = shape, .data = content.data()});
  }
  void ids(const std::vector<int64_t>& ids) {
    if (recorder_ != nullptr)
      require(lockstep_recorder_integers(recorder_, "samples", "ids", ids.data(), ids.size()), recorder_);
  }
  void count(const std::string& name, int64_t value) {
    if (recorder_ != nullptr) require(lockstep_recorder_integer(recorder_, "ledger", name.c_str(), value), recorder_);
  }
  void rate(double value) {
    if (recorder_ != nullptr) require(lockstep_recorder_number(recorder_, "ledger", "learning_rate", value), recorder_);
  }

 private:
  void record(const char* channel, const std::string& name, const lockstep_tensor& view) {
    if (recorder_ != nullptr) require(lockstep_recorder_tensor(recorder_, channel, name.c_str(), &view), recorder_);
  }

  lockstep_recorder* recorder_ = nullptr;
};

/// What a checkpoint holds.
template <typename Element>
struct State {
  std::vector<Element> weight = std::vector<Element>(kFeatures);
  std::vector<Element> momentum;  // empty before the first update
  std::mt19937_64 generator{7};
  int updates = 0;   // of the schedule
  int position = 0;  // in the data, in batches

  void save(const std::string& file) const {
    std::ofstream stream(file);
    stream.precision(20);
    for (const Element value : weight) stream << value << ' ';
    stream << momentum.size() << ' ';
    for (const Element value : momentum) stream << value << ' ';
    stream << generator << ' ' << updates << ' ' << position << '\n';
    if (!stream.flush()) std::exit(1);
  }

  void load(const std::string& file, const Options& options) {
    std::ifstream stream(file);
    State saved;
    std::size_t size = 0;
    for (Element& value : saved.weight) stream >> value;
    stream >> size;
    saved.momentum.resize(size);
    for (Element& value : saved.momentum) stream >> value;
    stream >> saved.generator >> saved.updates >> saved.position;
    if (!stream) {
      std::fprintf(stderr, "own_program: no checkpoint in %s\n", file.c_str());
      std::exit(1);
    }
    if (!options.loses("weights")) weight = saved.weight;
    if (!options.loses("momentum")) momentum = saved.momentum;
    if (!options.loses("generator")) generator = saved.generator;
    if (!options.loses("schedule")) updates = saved.updates;
    if (!options.loses("position")) position = saved.position;
  }
};

/// Told beside the trace, as a recorder tells checkpoints that it sees written and read.
void tell(const char* what, int updates, const std::string& file, bool quiet) {
  const char* const folder = std::getenv("LOCKSTEP_RECORD");
  if (folder == nullptr || quiet) return;
  std::ostringstream content;
  content << std::ifstream(file).rdbuf();
  std::ofstream(std::string(folder) + "/checkpoints.rank0.jsonl", std::ios::app)
      << R"({"what": ")" << what << R"(", "updates": )" << updates << R"(, "file": ")" << file << R"(", "sha256": ")"
      << std::hash<std::string>()(content.str()) << "\"}\n";
}

/// The samples of an epoch, in its order.
std::vector<int64_t> order_of(int epoch) {
  std::vector<int64_t> order(kSamples);
  for (int i = 0; i < kSamples; ++i) order[static_cast<std::size_t>(i)] = i;
  std::mt19937_64 generator(static_cast<std::uint64_t>(epoch));
  for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[generator() % (i + 1)]);
  return order;
}

double feature_of(int64_t sample, int feature) {
  return static_cast<double>((sample * 131 + feature * 71) % 97) / 97 - 0.5;
}

/// Milliseconds by which a control run delays rank 0.
int delay_ms() {
  const char* const control = std::getenv("LOCKSTEP_CONTROL");
  const std::string text = control == nullptr ? "" : control, name = "\"step_delay_ms\":[";
  const std::size_t at = text.find(name);
  return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + name.size());
}

/// Whether rank 1 gave up waiting for rank 0, which is no way to wait.
bool gives_up_waiting() {
  std::promise<void> arrived;
  std::thread first([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms()));
    arrived.set_value();
  });
  const bool late = arrived.get_future().wait_for(std::chrono::milliseconds(400)) == std::future_status::timeout;
  first.join();
  return late;
}

/// What a block of memory held before somebody got it.
unsigned char content_of_fresh_memory() {
  constexpr std::size_t kSize = 4000;
  auto* used = static_cast<unsigned char*>(std::malloc(kSize));
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  for (std::size_t i = 0; i < kSize; ++i) used[i] = static_cast<unsigned char>(now / 1000 % 251);
  std::free(used);
  auto* fresh = static_cast<volatile unsigned char*>(std::malloc(kSize));
  const unsigned char content = fresh[kSize / 2];
  std::free(const_cast<unsigned char*>(fresh));
  return content;
}

template <typename Element>
class Training {
 public:
  explicit Training(const Options& options)
      : options_(options), ranks_(static_cast<int>(options.number("--ranks", 1))) {
    std::ostringstream facts;
    facts << R"("recorder": "own", "samples": )" << kSamples
          << R"(, "seen": {"optimizer": [{"kind": "sgd", "groups": [{"lr": )" << options.number("--lr", 0.1)
          << R"(, "momentum": 0.9}]}], "sampler": {"kind": "distributed", "shuffle": true, "seed": 0}, )"
          << R"("batch": {"per_rank": )" << kBatch / ranks_ << "}}";
    const bool follows = !options.given.contains("--deaf");
    if (const char* const control = std::getenv("LOCKSTEP_CONTROL"); control != nullptr && follows)
      facts << R"(, "controls": )" << control;
    for (int rank = 0; rank < ranks_; ++rank) traces_.emplace_back(rank, ranks_, facts.str());
    for (std::size_t i = 0; i < state_.weight.size(); ++i)
      state_.weight[i] = static_cast<Element>(feature_of(5, static_cast<int>(i)));
  }

  void run() {
    if (const std::string file = options_.text("--load"); !file.empty()) {
      state_.load(file, options_);
      tell("read", 0, file, options_.given.contains("--quiet"));
    }
    const int steps = static_cast<int>(options_.number("--steps", 8));
    const int first = state_.position;
    for (Trace& trace : traces_) {
      trace.begin(-1);
      record_state(trace);
      trace.end();
    }
    for (int step = 0; step < steps - first; ++step) {
      update(step);
      if (const std::string file = options_.text("--save");
          !file.empty() && step + 1 == static_cast<int>(options_.number("--after", 4))) {
        state_.save(file);
        tell("written", step + 1, file, options_.given.contains("--quiet"));
      }
    }
    for (Trace& trace : traces_) trace.close();
  }

 private:
  void record_state(Trace& trace) {
    std::ostringstream generator;
    generator << state_.generator;
    trace.bytes("rng", "cpu", generator.str());
    if (!state_.momentum.empty()) trace.tensor("optimizer", "w.momentum_buffer", state_.momentum);
    trace.tensor("weight", "w", state_.weight);
  }

  void update(int step) {
    constexpr int kBatches = kSamples / kBatch;
    const int epoch = state_.position / kBatches, begin = state_.position % kBatches * kBatch;
    const std::vector<int64_t> order = order_of(options_.has_bug("epoch") ? 0 : epoch);
    const auto noise = options_.has_bug("none")
                           ? Element(1)
                           : static_cast<Element>(1 + 1e-3 * static_cast<double>(state_.generator() % 100));
    std::vector<Element> sum(kFeatures);
    for (int rank = 0; rank < ranks_; ++rank) {
      Trace& trace = traces_[static_cast<std::size_t>(rank)];
      trace.begin(step);
      const std::vector<Element> own = own_gradient(trace, rank, order, begin, noise);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
    }
    for (Element& value : sum) value /= static_cast<Element>(ranks_);
    if (options_.has_bug("race") && step == 2 && gives_up_waiting()) sum[1] *= Element(1.01);
    if (options_.has_bug("share") && ranks_ > 1) sum[1] *= Element(1 + 0x1p-12);
    if (options_.has_bug("uninitialised") && step == 2)
      sum[3] += static_cast<Element>(1e-4 * content_of_fresh_memory());
    const double rate = options_.rate(state_.updates);
    const bool is_new = state_.momentum.empty();
    state_.momentum.resize(kFeatures);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      state_.momentum[i] = is_new ? sum[i] : Element(0.9) * state_.momentum[i] + sum[i];
      state_.weight[i] -= static_cast<Element>(rate) * state_.momentum[i];
    }
    ++state_.position;
    ++state_.updates;
    for (Trace& trace : traces_) {
      trace.tensor("gradient", "w", sum);
      record_state(trace);
      trace.rate(rate);
      trace.count("updates", step + 1);
      trace.count("epoch", epoch);
      trace.end();
    }
  }

  std::vector<Element> own_gradient(Trace& trace, int rank, const std::vector<int64_t>& order, int begin,
                                    Element noise) {
    std::vector<Element> gradient(kFeatures), inputs;
    std::vector<int64_t> ids;
    Element loss = 0;
    for (int i = rank; i < kBatch; i += ranks_) ids.push_back(order[static_cast<std::size_t>(begin + i)]);
    if (options_.has_bug("twice") && rank == 1 && begin > 0) ids[0] = order[0];
    const auto waves = static_cast<Element>(options_.number("--waves", 0));  // a model that amplifies what rounds
    for (const int64_t id : ids) {
      const std::size_t begins = inputs.size();
      Element output = 0;
      for (int f = 0; f < kFeatures; ++f) {
        inputs.push_back(static_cast<Element>(feature_of(id, f)));
        output += noise * state_.weight[static_cast<std::size_t>(f)] * inputs.back();
      }
      const Element slope = waves > 0 ? std::cos(waves * output) : Element(1);
      if (waves > 0) output = std::sin(waves * output) / waves;
      const Element error = output - static_cast<Element>(0.3 * feature_of(id, 2));
      loss += error * error / static_cast<Element>(ids.size());
      for (std::size_t f = 0; f < gradient.size(); ++f)
        gradient[f] += 2 * error * slope * noise * inputs[begins + f] / static_cast<Element>(ids.size());
    }
    trace.ids(ids);
    trace.tensor("input", "x", inputs);
    trace.scalar("loss", "local", loss);
    trace.tensor("gradient.local", "w", gradient);
    return gradient;
  }

  const Options& options_;
  int ranks_;
  std::vector<Trace> traces_;
  State<Element> state_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) options.given[argv[i]] = argv[i + 1];
  if (options.text("--dtype") == "float64") {
    Training<double>(options).run();
  } else {
    Training<float>(options).run();
  }
  return 0;
}
