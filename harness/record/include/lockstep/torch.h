#ifndef LOCKSTEP_TORCH_H
#define LOCKSTEP_TORCH_H

/// Records a LibTorch training in three lines a step; over lockstep/recorder.h, for C++17 and LibTorch 2.5 or newer.
///
///     lockstep::TorchRecorder recorder({.size = …, .folder = "runs/a", .world_size = 1}, *net, optimizer);
///     for (…) {
///       recorder.input({{"x", x}, {"y", y}}, ids);
///       … loss.backward();
///       recorder.gradients(loss);
///       optimizer.step();
///       recorder.updated();
///     }
///     recorder.close();
///
/// Names are those of lockstep's own worker. Recording draws no random number, builds no graph and changes no tensor:
/// the training keeps its bits. *Errors*: the constructor and `close` throw std::runtime_error; other calls never fail
/// the training, but `close` then does, and the trace stays torn.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/recorder.h>
#include <torch/torch.h>

namespace lockstep {

/// The trace of one rank. *Lifetime*: of the model and of its optimizer, which it borrows.
class TorchRecorder {
 public:
  using Named = std::vector<std::pair<std::string, at::Tensor>>;

  /// Records the state before the first update. Without `config.header` the first line says what is not recorded.
  TorchRecorder(lockstep_recorder_config config, torch::nn::Module& model, torch::optim::Optimizer& optimizer)
      : model_(model), optimizer_(optimizer) {
    std::string header = R"({"recorder": "libtorch")";
    if (!knows_optimizer())
      header += R"(, "unseen": ["optimizer: lockstep/torch.h does not know the state of its class"])";
    header += "}";
    if (config.header == nullptr) config.header = header.c_str();
    if (lockstep_recorder_open(&config, &recorder_) != LOCKSTEP_OK)
      throw std::runtime_error(lockstep_recorder_error(nullptr));
    lockstep_recorder_begin_step(recorder_, -1);
    state();
    lockstep_recorder_end_step(recorder_);
  }

  /// Without `close` before, the trace stays torn: so does that of a training which an exception ends.
  ~TorchRecorder() { lockstep_recorder_free(recorder_); }

  TorchRecorder(const TorchRecorder&) = delete;
  TorchRecorder& operator=(const TorchRecorder&) = delete;

  /// Before the forward pass: what enters the model, and the ids of the samples where they are known. Further
  /// micro-batches of a step are recorded as `x#1`.
  void input(const Named& tensors, const std::vector<std::int64_t>& ids = {}) {
    begin();
    const std::string suffix = suffix_of(micro_batches_++);
    if (!ids.empty())
      lockstep_recorder_integers(recorder_, "samples", ("ids" + suffix).c_str(), ids.data(), ids.size());
    Records records;
    for (const auto& [name, tensor] : tensors) records.add("input", name + suffix, tensor);
    record(records);
  }

  /// The loss of a micro-batch that no update follows yet.
  void loss(const at::Tensor& loss) {
    begin();
    Records records;
    records.add("loss", "local" + suffix_of(losses_++), loss);
    record(records);
  }

  /// After backward, before the ranks reduce: where a program reduces gradients itself.
  void local_gradients() { all_gradients("gradient.local"); }

  /// After backward and any reduction, before the update: the loss, and what the optimizer gets.
  void gradients(const at::Tensor& last_loss) {
    loss(last_loss);
    all_gradients("gradient");
  }

  /// After the update: ends the step.
  void updated() {
    begin();
    state();
    const auto& groups = optimizer_.param_groups();
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const std::string name = "learning_rate" + (i == 0 ? "" : "." + std::to_string(i));
      lockstep_recorder_number(recorder_, "ledger", name.c_str(), groups[i].options().get_lr());
    }
    lockstep_recorder_integer(recorder_, "ledger", "updates", ++updates_);
    lockstep_recorder_end_step(recorder_);
    in_step_ = false;
  }

  /// Makes the trace a whole one; a step without update is none.
  void close() {
    if (in_step_) lockstep_recorder_drop_step(recorder_);
    in_step_ = false;
    if (lockstep_recorder_close(recorder_) != LOCKSTEP_OK) throw std::runtime_error(lockstep_recorder_error(recorder_));
  }

 private:
  /// Tensors for one call, and what keeps them alive until then.
  struct Records {
    void add(const char* channel, std::string name, const at::Tensor& tensor) {
      if (!tensor.defined()) return;
      channels.push_back(channel);
      names.push_back(std::move(name));
      tensors.push_back(readable(tensor));
    }
    std::vector<const char*> channels;
    std::vector<std::string> names;
    std::vector<at::Tensor> tensors;
  };

  /// In the processor's memory, of a dtype that the format has; else its bytes.
  static at::Tensor readable(const at::Tensor& tensor) {
    at::Tensor plain = tensor.detach();
    if (plain.layout() != at::kStrided) plain = plain.to_dense();
    plain = plain.cpu().resolve_conj().resolve_neg();
    if (plain.is_complex()) plain = at::view_as_real(plain);
    return dtype_of(plain) < 0 ? plain.contiguous().reshape(-1).view(at::kByte) : plain;
  }

  static int dtype_of(const at::Tensor& tensor) {
    switch (tensor.scalar_type()) {
      case at::kBool:
        return LOCKSTEP_BOOL;
      case at::kByte:
        return LOCKSTEP_UINT8;
      case at::kChar:
        return LOCKSTEP_INT8;
      case at::kShort:
        return LOCKSTEP_INT16;
      case at::kInt:
        return LOCKSTEP_INT32;
      case at::kLong:
        return LOCKSTEP_INT64;
      case at::kHalf:
        return LOCKSTEP_FLOAT16;
      case at::kBFloat16:
        return LOCKSTEP_BFLOAT16;
      case at::kFloat:
        return LOCKSTEP_FLOAT32;
      case at::kDouble:
        return LOCKSTEP_FLOAT64;
      default:
        return -1;
    }
  }

  void record(const Records& records) {
    std::vector<const char*> names;
    std::vector<lockstep_tensor> views;
    for (std::size_t i = 0; i < records.tensors.size(); ++i) {
      const at::Tensor& tensor = records.tensors[i];
      names.push_back(records.names[i].c_str());
      views.push_back({static_cast<lockstep_dtype>(dtype_of(tensor)), static_cast<std::size_t>(tensor.dim()),
                       tensor.sizes().data(), tensor.strides().data(), tensor.const_data_ptr()});
    }
    lockstep_recorder_tensors(recorder_, views.size(), records.channels.data(), names.data(), views.data());
  }

  void begin() {
    if (in_step_) return;
    lockstep_recorder_begin_step(recorder_, updates_);
    in_step_ = true;
    micro_batches_ = losses_ = 0;
  }

  void all_gradients(const char* channel) {
    begin();
    Records records;
    for (const auto& parameter : model_.named_parameters()) records.add(channel, parameter.key(), parameter->grad());
    record(records);
  }

  void state() {
    Records records;
    records.add("rng", "cpu", at::globalContext().defaultGenerator(at::kCPU).get_state());
    for (const auto& parameter : model_.named_parameters()) add_state(records, parameter.key(), *parameter);
    for (const auto& parameter : model_.named_parameters()) records.add("weight", parameter.key(), *parameter);
    for (const auto& buffer : model_.named_buffers()) records.add("buffer", buffer.key(), *buffer);
    record(records);
  }

  void add_state(Records& records, const std::string& parameter, const at::Tensor& tensor) {
    const auto found = optimizer_.state().find(tensor.unsafeGetTensorImpl());
    if (found == optimizer_.state().end()) return;
    torch::optim::OptimizerParamState* const state = found->second.get();
    const auto add = [&](const char* key, const at::Tensor& value) {
      records.add("optimizer", parameter + "." + key, value);
    };
    const auto step = [&](std::int64_t value) {
      lockstep_recorder_integer(recorder_, "optimizer", (parameter + ".step").c_str(), value);
    };
    const auto adam = [&](auto& of) {
      step(of.step());
      add("exp_avg", of.exp_avg());
      add("exp_avg_sq", of.exp_avg_sq());
      add("max_exp_avg_sq", of.max_exp_avg_sq());
    };
    if (auto* sgd = dynamic_cast<torch::optim::SGDParamState*>(state)) add("momentum_buffer", sgd->momentum_buffer());
    if (auto* of = dynamic_cast<torch::optim::AdamParamState*>(state)) adam(*of);
    if (auto* of = dynamic_cast<torch::optim::AdamWParamState*>(state)) adam(*of);
    if (auto* adagrad = dynamic_cast<torch::optim::AdagradParamState*>(state)) {
      step(adagrad->step());
      add("sum", adagrad->sum());
    }
    if (auto* rmsprop = dynamic_cast<torch::optim::RMSpropParamState*>(state)) {
      step(rmsprop->step());
      add("square_avg", rmsprop->square_avg());
      add("momentum_buffer", rmsprop->momentum_buffer());
      add("grad_avg", rmsprop->grad_avg());
    }
  }

  bool knows_optimizer() const {
    return dynamic_cast<torch::optim::SGD*>(&optimizer_) != nullptr ||
           dynamic_cast<torch::optim::Adam*>(&optimizer_) != nullptr ||
           dynamic_cast<torch::optim::AdamW*>(&optimizer_) != nullptr ||
           dynamic_cast<torch::optim::Adagrad*>(&optimizer_) != nullptr ||
           dynamic_cast<torch::optim::RMSprop*>(&optimizer_) != nullptr;
  }

  static std::string suffix_of(int i) { return i == 0 ? "" : "#" + std::to_string(i); }

  torch::nn::Module& model_;
  torch::optim::Optimizer& optimizer_;
  lockstep_recorder* recorder_ = nullptr;
  std::int64_t updates_ = 0;
  bool in_step_ = false;
  int micro_batches_ = 0, losses_ = 0;  // of this step
};

}  // namespace lockstep

#endif  // LOCKSTEP_TORCH_H
