#include "harness/launch/slurm_job.h"

#include <utility>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep::launch {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kNameBegin = "lockstep-";

/// Submits a run, unless its job is known already, and waits for its end, which the job itself writes down. Slurm is
/// asked seldom: whether somebody has cancelled the job. Takes the beginning of the job's name, the folder of the
/// run, the job's script, and options.
constexpr const char* kSubmit = R"(name=$1$LOCKSTEP_RUN_ID; folder=$2; script=$3; shift 3
known() { squeue --me --noheader --name="$name" --format=%i; }
trap 'scancel --me --name="$name"; exit 143' TERM
if [ ! -e "$folder/slurm.ended" ]; then
  jobs=$(known) || exit
  [ -n "$jobs" ] || sbatch --quiet --job-name="$name" --output="$folder/command.log" --open-mode=append "$@" \
    --wrap "$script" || exit
fi
seconds=0
while [ ! -e "$folder/slurm.ended" ]; do
  sleep 1 & wait $!
  seconds=$((seconds + 1))
  if [ $((seconds % 30)) = 0 ] && jobs=$(known) && [ -z "$jobs" ] && [ ! -e "$folder/slurm.ended" ]; then exit 1; fi
done
read -r code <"$folder/slurm.ended"
exit "$code")";

std::string quoted(const Words& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_quoted(word);
  return line;
}

}  // namespace

std::vector<StartCommand> submit_to_slurm(const Launch& launch) {
  const Words sizes = {"--ntasks", std::to_string(launch.world_size), "--nodes", std::to_string(launch.nodes)};
  Words step = {"srun", "--kill-on-bad-exit=1", "--export=ALL", "--quiet"};
  step.insert(step.end(), sizes.begin(), sizes.end());
  step.insert(step.end(), launch.command.begin(), launch.command.end());
  // sbatch would take them for patterns, and lose its log.
  if (launch.directory.string().find_first_of("%\\") != std::string::npos)
    throw InputError({.what = "Slurm cannot write into a folder of this name",
                      .where = launch.directory.string(),
                      .expected = "neither % nor a backslash"});
  const std::string folder = launch.directory.string(), ended = shell_quoted(folder + "/slurm.ended");
  const std::string script =
      "[ \"$(cat " + shell_quoted(folder + "/" + kRunIdFile) + ")\" = \"$LOCKSTEP_RUN_ID\" ] || exit\nMASTER_PORT=$(" +
      quoted({launch.command.front(), "--free-port"}) + " $SLURM_JOB_ID) || exit\nexport MASTER_PORT\n" + quoted(step) +
      "\ncode=$?\necho $code >" + ended + ".new && mv " + ended + ".new " + ended + "\nexit $code\n";
  Words words = {"/bin/sh", "-c", kSubmit, "slurm", kNameBegin, folder, script};
  words.insert(words.end(), sizes.begin(), sizes.end());
  words.insert(words.end(), launch.options.begin(), launch.options.end());
  return {{std::move(words)}};
}

std::string slurm_job_name(const std::string& run_id) { return kNameBegin + run_id; }

}  // namespace lockstep::launch
