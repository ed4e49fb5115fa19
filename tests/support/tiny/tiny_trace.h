#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

/// Traces small enough to be made in memory, by a training that is real in everything but its size.
namespace lockstep::test {

/// Records as the recorder would make them. An empty `shape` stands for one dimension.
trace::Record floats(trace::Channel channel, const std::string& name, const std::vector<float>& elements,
                     std::vector<std::int64_t> shape = {});
trace::Record scalar(trace::Channel channel, const std::string& name, float value);
trace::Record wide_floats(trace::Channel channel, const std::string& name, const std::vector<double>& elements,
                          std::vector<std::int64_t> shape);  ///< in float64
trace::Record wide_scalar(trace::Channel channel, const std::string& name, double value);
trace::Record integers(trace::Channel channel, const std::string& name, const std::vector<std::int64_t>& values);
trace::Record integer(const std::string& name, std::int64_t value);  ///< of the ledger
trace::Record number(const std::string& name, double value);         ///< of the ledger
trace::Record text(trace::Channel channel, const std::string& name, const std::string& value);

/// What goes wrong in a tiny training; every rank sees the consequences.
struct Faults {
  std::function<void(std::int64_t step, std::int64_t rank, std::vector<std::int64_t>& ids)> ids;
  std::function<void(std::int64_t step, const std::string& name, std::vector<float>& gradient)> gradient;
  std::function<double(std::int64_t step, double learning_rate)> learning_rate;  ///< of the update and the ledger
  std::function<double(std::int64_t step, double learning_rate)> silent_rate;    ///< of the update alone
  std::function<void(std::int64_t step, const std::string& name, std::vector<float>& weight)> weight;
};

/// Trains a linear layer ("fc.weight" 4x8, "fc.bias" 4) in float32 as `variant` says: sampler, batch, accumulation,
/// world size, SGD with momentum, schedule. Gradients are averaged over the ranks in rank order, so that world sizes
/// part by rounding and by nothing else.
trace::RunTrace tiny_run(const scenario::Variant& variant, const std::string& name, const Faults& faults = {});

/// The trace of a run that goes on from `straight`'s state after `updates` updates.
trace::RunTrace resumed_from(const trace::RunTrace& straight, std::int64_t updates, const std::string& name);

/// One record of a trace, to be changed. *Throws*: std::out_of_range.
trace::Record& at(trace::RunTrace& run, std::int64_t rank, std::int64_t step, trace::Channel channel,
                  const std::string& name);
trace::Step& step_at(trace::RunTrace& run, std::int64_t rank, std::int64_t step);

/// Another record in the place of the one of its channel and name.
void put(trace::RunTrace& run, std::int64_t rank, std::int64_t step, const trace::Record& record);

void erase(trace::RunTrace& run, std::int64_t rank, std::int64_t step, trace::Channel channel, const std::string& name);
void erase_step(trace::RunTrace& run, std::int64_t rank, std::int64_t step);

/// Every record of the channel, in every step of every rank.
void erase_channel(trace::RunTrace& run, trace::Channel channel);

/// Flips the digest of a record and nothing else.
void spoil(trace::RunTrace& run, std::int64_t rank, std::int64_t step, trace::Channel channel, const std::string& name);

/// Adds the gradient of a layer behind the others, the same at every step.
void add_last_layer(trace::RunTrace& run);

/// Writes rank<r>.jsonl of every rank, whole.
void write_run(const std::filesystem::path& directory, const trace::RunTrace& run);

}  // namespace lockstep::test
