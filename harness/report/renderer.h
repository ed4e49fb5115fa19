#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/judge/verdict.h"
#include "harness/plan/plan.h"

namespace lockstep::report {

/// A form of a report: it turns verdicts into bytes, and judges nothing.
class Renderer {
 public:
  virtual ~Renderer() = default;
  virtual std::string render(const judge::Verdict& verdict, const plan::Plan& plan) const = 0;
};

/// A table of scenarios, then every failure with place, values, class, cause and what to do next.
/// `color`: whether terminal colours may be used.
std::unique_ptr<Renderer> make_text_renderer(bool color);

/// The machine-readable result, "lockstep.result/1".
std::unique_ptr<Renderer> make_json_renderer();

/// A report that a command writes into a file.
struct Format {
  const char* option;  ///< names the file on the command line
  const char* help;
  std::unique_ptr<Renderer> (*make)();
};

/// One row for each format.
const std::vector<Format>& formats();

/// One divergence, indented: step, channel, tensor, rank, both sides, relation, class, cause.
std::string to_text(const compare::Divergence& divergence);
Json to_json(const compare::Divergence& divergence);

/// The JSON renderer's value, for commands that add to it.
Json to_json(const judge::Verdict& verdict, const plan::Plan& plan);

}  // namespace lockstep::report
