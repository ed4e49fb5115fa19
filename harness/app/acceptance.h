#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/app/pipeline.h"
#include "harness/golden/proposal.h"

namespace lockstep::app {

/// Variants that some golden check names.
std::set<std::string> variants_with_goldens(const scenario::Scenario& scenario);

/// Why a variant cannot become a golden, whatever it computes: overrides that no file holds; planted faults, its own or
/// those of variants that it loads from.
std::vector<std::string> obstacles_of(const scenario::Scenario& scenario, const std::string& variant);

/// The repeats of a variant as a trace to accept into a folder of goldens. Without repeats where a run left no whole
/// trace.
golden::Acceptable acceptable(const plan::Plan& plan, const std::vector<judge::Evidence>& evidence,
                              const scenario::Scenario& scenario, const std::string& variant,
                              const std::filesystem::path& root);

/// Who accepts it now, and from which state of the sources.
golden::Acceptance acceptance_now(const scenario::Scenario& scenario, const std::filesystem::path& root,
                                  const std::string& reason);

/// Whether this is a CI job, by the environment variable CI.
bool is_ci();

/// *Throws*: InputError in a CI job, unless `in_ci`: a job that accepts its own goldens is always green.
void require_somebody_decides(bool in_ci);

/// *Throws*: InputError where sources differ from the last commit, unless `dirty`: a golden's commit says how to make
/// it again.
void require_clean(const scenario::Scenario& scenario, const std::filesystem::path& root, bool dirty);

/// Proposes each variant whose golden check does not agree, and withdraws what agrees. In a CI job only if the options
/// name a folder.
void propose(const RunOptions& options, const plan::Plan& plan, const std::vector<judge::Evidence>& evidence,
             const judge::Verdict& verdict);

}  // namespace lockstep::app
