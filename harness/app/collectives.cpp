#include "harness/app/collectives.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "harness/app/pipeline.h"
#include "harness/app/worker_program.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/launch/local.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLeastBytes = 8;
constexpr std::int64_t kMostBytes = 8 << 20;

/// One operation of one size, over all ranks.
struct Row {
  std::string operation;
  std::int64_t bytes = 0;
  double seconds = 0;
  std::int64_t wrong = 0;

  double algorithm_bandwidth() const { return static_cast<double>(bytes) / seconds / 1e9; }
  /// Bandwidth of the links, whatever the number of ranks. *Source*: nccl-tests, doc/PERFORMANCE.md.
  double bus_bandwidth(std::int64_t ranks) const {
    const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
    return algorithm_bandwidth() * (operation == "all-reduce" ? 2 * others : operation == "broadcast" ? 1 : others);
  }
};

/// Times of the slowest rank, wrong elements of all.
std::vector<Row> rows_of(const fs::path& folder, std::int64_t ranks) {
  std::vector<Row> rows;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const Json said = read_json(folder / ("rank" + std::to_string(rank) + ".collectives.json"));
    if (rank == 0) rows.resize(said.size());
    LOCKSTEP_CHECK(said.size() == rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].operation = said[i].at("operation").get<std::string>();
      rows[i].bytes = said[i].at("bytes").get<std::int64_t>();
      rows[i].seconds = std::max(rows[i].seconds, said[i].at("seconds").get<double>());
      rows[i].wrong += said[i].at("wrong").get<std::int64_t>();
    }
  }
  return rows;
}

std::vector<Row> measure(const DoctorOptions& options, const fs::path& folder) {
  const fs::path request = folder / "request.json";
  write_file(request, Json({{"over", options.over},
                            {"least_bytes", kLeastBytes},
                            {"most_bytes", kMostBytes},
                            {"wrong_rank", options.wrong_element ? options.ranks - 1 : -1}})
                          .dump());
  const launch::Job job{.run = "collectives",
                        .directory = folder,
                        .command = {find_worker(options.run.worker).string(), "--collectives", request.string(),
                                    "--out", folder.string()},
                        .world_size = options.ranks};
  launch::ForkServers servers;
  launch::LocalLauncher launcher(static_cast<int>(options.ranks), servers);
  launch::Observer nobody;
  const launch::RunOutcome outcome = launch::launch_all({job}, launcher, nobody).front();
  if (outcome.status == launch::RunOutcome::Status::kInterrupted) throw Interrupted({.what = outcome.why});
  if (outcome.status != launch::RunOutcome::Status::kFinished)
    throw ResourceError({.what = "the ranks cannot talk to each other: " + outcome.why, .actual = outcome.log_tail});
  return rows_of(folder, options.ranks);
}

std::string fixed(double value, int width) {
  char text[32];
  std::snprintf(text, sizeof text, "%*.3f", width, value);
  return text;
}

std::string text_of(const Row& row, std::int64_t ranks) {
  const std::string bytes = std::to_string(row.bytes);
  return padded(row.operation, 14) + std::string(12 - std::min<std::size_t>(12, bytes.size()), ' ') + bytes +
         fixed(row.seconds * 1e6, 13) + fixed(row.algorithm_bandwidth(), 10) + fixed(row.bus_bandwidth(ranks), 10) +
         "  " + std::to_string(row.wrong);
}

}  // namespace

std::string examine_collectives(const DoctorOptions& options) {
  RunsFolder folder("");
  const std::vector<Row> rows = measure(options, folder.path());
  print_line(stdout, "operation            bytes    time (us)  alg GB/s  bus GB/s  wrong");
  for (const Row& row : rows) print_line(stdout, text_of(row, options.ranks));
  for (const Row& row : rows) {
    if (row.wrong == 0) continue;
    throw DamagedFile({.what = "a sum or copy between ranks is wrong",
                       .where = row.operation + " of " + std::to_string(row.bytes) + " bytes, " +
                                std::to_string(options.ranks) + " ranks",
                       .expected = "exact whole numbers",
                       .actual = std::to_string(row.wrong) + " wrong elements",
                       .next = options.wrong_element ? "--wrong-element planted it"
                                                     : "examine memory and network: no training here can be trusted"});
  }
  return std::to_string(rows.size()) + " of " + std::to_string(rows.size()) + " exact, over " + options.over +
         ", between " + std::to_string(options.ranks) + " workers";
}

}  // namespace lockstep::app
