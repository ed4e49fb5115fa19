#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/app/campaign.h"
#include "harness/app/commands.h"
#include "harness/app/runs_folder.h"
#include "harness/base/problems.h"
#include "harness/experiment/investigation.h"
#include "harness/judge/judge.h"
#include "harness/launch/job.h"
#include "harness/launch/listener.h"
#include "harness/plan/plan.h"

namespace lockstep::app {

/// The channel that an option `--channel` names. *Throws*: InputError for an unknown one, with the nearest.
trace::Channel channel_option(const std::string& name);

/// Scenario files of a selection: files as they are, of a folder every *.json and *.jsonc, sorted.
/// A missing path, or that nothing is selected, is added to `problems`.
std::vector<std::filesystem::path> select(const std::vector<std::filesystem::path>& paths, Problems& problems);

/// All scenarios of a selection. *Throws*: InputError with the errors of all of them.
std::vector<scenario::Scenario> load(const RunOptions& options);

/// The one scenario that a command is about. *Throws*: InputError, also where a folder holds several.
scenario::Scenario load_one(RunOptions options, const std::filesystem::path& file);

/// The variant that an option names. *Throws*: InputError for an unknown one, with the nearest. *Lifetime*: of
/// `scenario`.
const scenario::Variant& variant_option(const scenario::Scenario& scenario, const std::string& name);

/// Ranks that run at once.
int ranks_at_once(const RunOptions& options);

/// Ports of this machine for runs that choose theirs before they begin. Each is free until the last one is given out.
class Ports {
 public:
  std::uint16_t next();

 private:
  std::vector<launch::Listener> held_;  // together, so that no two runs get one port
};

/// Job of a run in its folder below `runs_root`, which it makes.
launch::Job job_in(const plan::Run& run, const std::filesystem::path& runs_root, const RunOptions& options,
                   Ports& ports);

/// Launches every run of the plan and reads what it left behind (judge::read_evidence). In a campaign it launches
/// only those that have not ended. `also`: is notified as the display is; null: nobody else.
std::vector<judge::Evidence> execute(plan::Plan& plan, const RunOptions& options,
                                     const std::filesystem::path& runs_root, const Campaign* campaign = nullptr,
                                     launch::Observer* also = nullptr);

/// Executor for control runs. It throws Interrupted if one was interrupted: such a run shows nothing.
experiment::Execute executor_again(const RunOptions& options, const std::filesystem::path& runs_root);

/// Tries again what the verdict leaves open or calls different, and says on stderr that it does.
void investigate(judge::Verdict& verdict, const plan::Plan& plan, const std::vector<judge::Evidence>& evidence,
                 const RunOptions& options, const std::filesystem::path& runs_root);

/// Names the row of the decision's table for each divergence that no trial has decided.
void name_rows(judge::Verdict& verdict);

/// "2027-01-31", UTC.
std::string today();

/// Removes the file of an earlier result before the work: a command that ends by an error must not leave the verdict
/// of another. Finds out, too, that a result could not be written. "" and "-" need nothing; devices and pipes stay.
/// `scenarios`: files and folders of the command. *Throws*: InputError, also where the file is one of them.
void make_way(const std::string& option, const std::filesystem::path& target,
              const std::vector<std::filesystem::path>& scenarios = {});

/// Makes way for all reports that the options name. *Throws*: InputError, also where a report cannot be made of them.
void make_way(const RunOptions& options);

/// Adds the pictures that a report of the options draws (judge/illustrate.h); without such a report nothing.
void illustrate(judge::Verdict& verdict, const plan::Plan& plan, const std::vector<judge::Evidence>& evidence,
                const RunOptions& options);

/// Prints the report as text, unless another one goes to stdout, and writes those that the options name.
/// *Throws*: ResourceError.
void write_reports(const RunOptions& options, const judge::Verdict& verdict, const plan::Plan& plan);

/// Writes a result to a file whole or not at all; to a device or a pipe as it is. *Throws*: ResourceError.
void write_result(const std::filesystem::path& target, const std::string& text);

/// Writes JSON to a file, or to stdout for "-". *Throws*: ResourceError.
void write_json(const std::filesystem::path& target, const Json& value);

/// When text is coloured.
enum class Color { kWhereItShows, kAlways, kNever };

/// The option --color of this command line.
void choose_color(Color color);

/// Whether a stream may be coloured: as --color says, else not by NO_COLOR, always by FORCE_COLOR, else on a terminal
/// that is not TERM=dumb. *Source*: no-color.org, force-color.org.
bool may_color(int descriptor);

}  // namespace lockstep::app
