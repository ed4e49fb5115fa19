#include "harness/train/recording/operator_log.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/train/device/tensors.h"

namespace lockstep::train {
namespace {

/// What these return, or what they find where they write, is whatever the memory held.
constexpr std::array<std::string_view, 6> kGiveGarbage = {
    "aten::empty",     "aten::empty_like",        "aten::empty_strided",
    "aten::new_empty", "aten::new_empty_strided", "aten::resize_"};
constexpr std::array<std::string_view, 10> kOverwrite = {
    "aten::copy_",    "aten::fill_",      "aten::zero_", "aten::random_", "aten::normal_",
    "aten::uniform_", "aten::bernoulli_", "aten::set_",  "aten::resize_", "aten::exponential_"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string text_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  if (!tensor.is_cpu() || tensor.layout() != at::kStrided) return "unread";
  try {
    return to_text(record::digest_of(view_of(tensor)));
  } catch (const Unsupported&) {
    return "unread";
  }
}

void each_tensor(const c10::IValue& value, const auto& action) {
  if (value.isTensor()) {
    action(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) action(tensor);
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) each_tensor(item, action);
  }
}

/// A tensor's digest, or a number or list of numbers; "-" for what says nothing of values.
std::string text_of(const c10::IValue& value) {
  std::vector<std::string> parts;
  if (value.isDouble()) return to_decimal(value.toDouble());
  if (value.isInt()) return std::to_string(value.toInt());
  if (value.isBool()) return value.toBool() ? "true" : "false";
  if (value.isNone()) return "none";
  if (value.isDoubleList()) {
    for (const double one : value.toDoubleVector()) parts.push_back(to_decimal(one));
  } else if (value.isIntList()) {
    for (const std::int64_t one : value.toIntVector()) parts.push_back(std::to_string(one));
  } else {
    each_tensor(value, [&](const at::Tensor& tensor) { parts.push_back(text_of(tensor)); });
    if (value.isTensor()) return parts.at(0);
    if (parts.empty()) return "-";
  }
  return "[" + join(parts, ",") + "]";
}

}  // namespace

/// What the callbacks see.
struct OperatorLog::State {
  std::map<const void*, std::vector<std::string>> names;  ///< of parameters and their gradients, by storage
  std::map<std::int64_t, std::vector<std::string>>
      forward_of;  ///< parameters of a forward operator, by sequence number
  std::vector<trace::OperatorCall> calls;
  std::string phase;
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
  std::int64_t depth = 0;
  bool logged = false;  ///< the outermost operator
  /// Backward functions that are being called, from the outside in.
  struct Node {
    std::string name;
    std::int64_t sequence = 0;
  };
  std::vector<Node> nodes;
  std::vector<std::string> current;  ///< parameters of the outermost operator
  std::vector<at::Tensor> lists;     ///< tensors of its inputs' lists: what an operator that returns nothing writes to

  std::vector<std::string> parameters_of(const at::RecordFunction& call) const {
    std::vector<std::string> found;
    for (const c10::IValue& input : call.inputs()) {
      each_tensor(input, [&](const at::Tensor& tensor) {
        if (!tensor.defined() || !tensor.has_storage()) return;
        const auto known = names.find(tensor.storage().unsafeGetStorageImpl());
        if (known == names.end()) return;
        for (const std::string& name : known->second) {
          if (std::find(found.begin(), found.end(), name) == found.end()) found.push_back(name);
        }
      });
    }
    if (!found.empty() || nodes.empty()) return found;
    const auto forward = forward_of.find(nodes.back().sequence);
    return forward == forward_of.end() ? found : forward->second;
  }

  /// What the engine and the Reducer only bracket is no operator.
  static bool is_bracket(const at::RecordFunction& call) {
    const std::string_view name = call.name();
    return name.starts_with("autograd::engine::") || name.starts_with("torch::distributed::");
  }

  void begin(const at::RecordFunction& call) {
    if (is_bracket(call)) return;
    if (call.scope() == at::RecordScope::BACKWARD_FUNCTION) {
      nodes.push_back({call.name(), call.seqNr()});
      return;
    }
    if (depth++ == 0) {
      current = parameters_of(call);
      logged = !std::string_view(call.name()).starts_with("c10d::");
    }
    if (depth == 1 && logged) {
      lists.clear();
      for (const c10::IValue& input : call.inputs()) {
        if (input.isTensorList()) each_tensor(input, [&](const at::Tensor& tensor) { lists.push_back(tensor); });
      }
      calls.push_back({.name = call.name(),
                       .phase = phase,
                       .node = nodes.empty() ? "" : nodes.back().name,
                       .parameters = current,
                       .inputs = inputs_of(call),
                       .outputs = {}});
    }
    if (nodes.empty() && call.seqNr() >= 0) forward_of[call.seqNr()] = current;
  }

  static std::vector<std::string> inputs_of(const at::RecordFunction& call) {
    const bool overwrites = is_one_of(kOverwrite, call.name()), views = is_view(call);
    const std::optional<c10::FunctionSchema> schema = call.operator_schema();
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < call.inputs().size(); ++i) {
      const bool is_target = (views && call.inputs()[i].isTensor()) || (overwrites && i == 0) ||
                             (schema && i < schema->arguments().size() && schema->arguments()[i].is_out());
      texts.push_back(is_target ? "-" : text_of(call.inputs()[i]));
    }
    if (draws(call)) texts.push_back(text_of(at::detail::getDefaultCPUGenerator().get_state()));
    return texts;
  }

  /// Whether the operator only looks at memory in another way: it neither reads nor writes what may be nobody's yet.
  static bool is_view(const at::RecordFunction& call) {
    const std::optional<c10::FunctionSchema> schema = call.operator_schema();
    if (!schema || schema->returns().empty()) return false;
    const c10::AliasInfo* alias = schema->returns()[0].alias_info();
    return alias != nullptr && !alias->isWrite();
  }

  /// Whether the operator draws from a generator: its state is an input, too.
  static bool draws(const at::RecordFunction& call) {
    const std::optional<c10::OperatorName> name = call.operator_name();
    if (!name) return false;
    const auto found = c10::Dispatcher::singleton().findOp(*name);
    return found && found->hasTag(at::Tag::nondeterministic_seeded);
  }

  void end(const at::RecordFunction& call) {
    if (is_bracket(call)) return;
    if (call.scope() == at::RecordScope::BACKWARD_FUNCTION) {
      if (!nodes.empty()) nodes.pop_back();
      return;
    }
    if (depth == 0 || --depth > 0 || !logged || calls.empty()) return;
    if (is_one_of(kGiveGarbage, call.name()) || is_view(call)) return;
    std::vector<std::string>& outputs = calls.back().outputs;
    for (const c10::IValue& output : call.outputs()) outputs.push_back(text_of(output));
    // The inputs are gone by now.
    if (outputs.empty()) {
      for (const at::Tensor& tensor : lists) outputs.push_back(text_of(tensor));
    }
    lists.clear();
  }
};

thread_local OperatorLog::State* OperatorLog::active = nullptr;

OperatorLog::OperatorLog(const std::vector<NamedTensor>& parameters) : state_(std::make_unique<State>()) {
  LOCKSTEP_CHECK(active == nullptr);
  for (const NamedTensor& parameter : parameters)
    state_->names[parameter.tensor.storage().unsafeGetStorageImpl()].push_back(parameter.name);
  active = state_.get();
  at::RecordFunctionCallback callback(
      [](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
        const at::RecordFunctionGuard nothing_within(/*is_enabled=*/false);
        if (active != nullptr) active->begin(call);
        return nullptr;
      },
      [](const at::RecordFunction& call, at::ObserverContext*) {
        const at::RecordFunctionGuard nothing_within(/*is_enabled=*/false);
        if (active != nullptr) active->end(call);
      });
  callback.needsInputs(true).needsOutputs(true).scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
  state_->handle = at::addThreadLocalCallback(callback);
}

OperatorLog::~OperatorLog() {
  at::removeCallback(state_->handle);
  active = nullptr;
}

void OperatorLog::enter(std::string phase) { state_->phase = std::move(phase); }

const std::vector<trace::OperatorCall>& OperatorLog::calls() const { return state_->calls; }

}  // namespace lockstep::train
