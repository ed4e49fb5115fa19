#include "harness/trace/reader.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/hash.h"
#include "harness/trace/header.h"
#include "harness/trace/inputs.h"
#include "harness/trace/joining.h"
#include "harness/trace/line.h"

namespace lockstep::trace {
namespace {

/// Reads the lines of one file in turn and knows where it is.
class TraceParser {
 public:
  TraceParser(const std::filesystem::path& path, Damage damage)
      : content_(read_file(path)), rest_(content_), damage_(damage) {
    trace_.origin = path.string();
  }

  Trace parse() {
    if (content_.empty()) {
      trace_.torn = "the file is empty";
      return std::move(trace_);
    }
    while (!rest_.empty() && !trace_.complete) {
      const std::size_t newline = rest_.find('\n');
      if (newline == std::string_view::npos) {
        trace_.torn = "line " + std::to_string(line_ + 1) + " breaks off in the middle";
        return std::move(trace_);
      }
      ++line_;
      read_line(rest_.substr(0, newline));
      rest_.remove_prefix(newline + 1);
    }
    if (!rest_.empty()) fail("lines follow the closing line");
    if (!trace_.complete) trace_.torn = "it ends after line " + std::to_string(line_) + ", without the closing line";
    return std::move(trace_);
  }

 private:
  void read_line(std::string_view line) {
    if (!is_sealed(line)) report("its checksum does not match");
    try {
      const Json object = Json::parse(line);
      if (line_ == 1) {
        read_header(object);
      } else if (object.contains("end")) {
        read_end(object, line);
      } else {
        trace_.steps.push_back(step_from(object));
        if (trace_.steps.size() > 1 && trace_.steps.back().step <= trace_.steps[trace_.steps.size() - 2].step) {
          fail("its step does not come after the step before");
        }
      }
    } catch (const Error&) {
      throw;
    } catch (const Json::parse_error&) {
      fail("it is not valid JSON");
    } catch (const Json::exception&) {
      fail("a value has the wrong type");
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }

  void read_header(const Json& object) {
    const std::string format = object.contains("format") ? field<std::string>(object, "format") : "";
    if (format != kTraceFormat) {
      throw InputError({.what = "this version cannot read this trace",
                        .where = trace_.origin,
                        .expected = std::string(kTraceFormat),
                        .actual = format.empty() ? "no format" : format});
    }
    trace_.rank = field<std::int64_t>(object, "rank");
    trace_.world_size = field<std::int64_t>(object, "world_size");
    if (trace_.rank < 0 || trace_.rank >= trace_.world_size) fail("its rank is not below its world size");
    if (const auto fault = fault_of_header(object)) fail("its '" + fault->key + "' is not " + fault->expected);
    trace_.header = object;
    trace_.header.erase("check");
  }

  void read_end(const Json& object, std::string_view line) {
    const std::string_view before(content_.data(), static_cast<std::size_t>(line.data() - content_.data()));
    if (field<std::size_t>(object, "lines") != line_ - 1) report("its line count is wrong");
    if (field<std::string>(object, "sha256") != sha256(before)) report("its SHA-256 does not match the lines before");
    trace_.complete = true;
  }

  void report(const std::string& what) {
    if (damage_ == Damage::kRefuse) fail(what);
    trace_.damage.push_back("line " + std::to_string(line_) + ": " + what);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw DamagedFile({.what = "damaged trace: " + what,
                       .where = trace_.origin + ", line " + std::to_string(line_),
                       .next = "run it again; a damaged trace proves nothing"});
  }

  std::string content_;
  std::string_view rest_;
  Damage damage_;
  std::size_t line_ = 0;
  Trace trace_;
};

bool is_file_of_rank(const std::string& name) {
  constexpr std::string_view kBefore = "rank", kAfter = ".jsonl";
  if (!name.starts_with(kBefore) || !name.ends_with(kAfter) || name.size() <= kBefore.size() + kAfter.size())
    return false;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return std::all_of(name.begin() + kBefore.size(), name.end() - kAfter.size(), is_digit);
}

/// A rank that the run has not, but wrote a trace, may have taken part in it.
void require_no_more_ranks(const std::filesystem::path& directory, const RunTrace& run) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    const bool is_ours = std::any_of(run.ranks.begin(), run.ranks.end(), [&](const Trace& rank) {
      return std::filesystem::path(rank.origin).filename() == name;
    });
    if (is_file_of_rank(name) && !is_ours)
      throw DamagedFile({.what = "there are more traces than ranks",
                         .where = entry.path().string(),
                         .expected = std::to_string(run.ranks.size()) + " ranks, as " + run.ranks[0].origin + " says",
                         .next = "run it again, in an empty folder"});
  }
}

/// All ranks of a run say of it what rank 0 says. What a damaged file says is told as damage.
void require_one_run(const Trace& first, const Trace& rank) {
  if (!first.damage.empty() || !rank.damage.empty()) return;
  for (const char* key : {"scenario", "variant", "train_digest"}) {
    const Json expected = first.header.value(key, Json()), actual = rank.header.value(key, Json());
    if (expected == actual) continue;
    throw DamagedFile({.what = std::string("the ranks in one directory belong to different runs: ") + key + " differs",
                       .where = rank.origin,
                       .expected = expected.dump() + ", as in " + first.origin,
                       .actual = actual.dump(),
                       .next = "run it again, in an empty folder"});
  }
}

}  // namespace

Trace read_trace(const std::filesystem::path& path, Damage damage) {
  Trace trace = TraceParser(path, damage).parse();
  if (trace.complete && is_there(std::filesystem::path(path).replace_extension(".refused"))) {
    trace.complete = false;
    trace.torn = "another process trained as rank " + std::to_string(trace.rank) + ", too: only the first is recorded";
  }
  return trace;
}

std::string file_name_of_rank(std::int64_t rank) { return "rank" + std::to_string(rank) + ".jsonl"; }

std::vector<std::filesystem::path> starts_in(const std::filesystem::path& directory) {
  constexpr std::string_view kRestart = "restart";
  std::vector<std::filesystem::path> starts;  // one whose ranks did not meet left none
  if (is_folder(directory)) starts = entries_of(directory);
  std::erase_if(starts, [&](const std::filesystem::path& entry) {
    const std::string name = entry.filename().string();
    return !name.starts_with(kRestart) || name.find_first_not_of("0123456789", kRestart.size()) != std::string::npos ||
           !is_folder(entry);
  });
  std::sort(starts.begin(), starts.end(), [](const std::filesystem::path& a, const std::filesystem::path& b) {
    return std::pair(a.string().size(), a.string()) < std::pair(b.string().size(), b.string());
  });
  starts.insert(starts.begin(), directory);
  return starts;
}

RunTrace read_run(const std::filesystem::path& directory, const std::string& run, Damage damage) {
  RunTrace result{.run = run, .ranks = {}};
  std::int64_t world_size = 1;
  for (std::int64_t rank = 0; rank < world_size; ++rank) {
    const std::filesystem::path file = directory / file_name_of_rank(rank);
    if (rank > 0 && !is_there(file)) {
      throw DamagedFile({.what = "the trace of rank " + std::to_string(rank) + " is missing",
                         .where = file.string(),
                         .expected = std::to_string(world_size) + " ranks, as " + result.ranks[0].origin + " says"});
    }
    result.ranks.push_back(read_trace(file, damage));
    const Trace& trace = result.ranks.back();
    if (trace.header.is_null()) continue;  // empty file: incomplete, and says so
    if (rank == 0) world_size = trace.world_size;
    if (trace.rank != rank || trace.world_size != world_size) {
      throw DamagedFile({.what = "the traces in one directory do not belong to one run",
                         .where = trace.origin,
                         .expected = "rank " + std::to_string(rank) + " of " + std::to_string(world_size),
                         .actual = "rank " + std::to_string(trace.rank) + " of " + std::to_string(trace.world_size)});
    }
    if (!result.ranks[0].header.is_null()) require_one_run(result.ranks[0], trace);
  }
  if (!result.ranks[0].header.is_null()) require_no_more_ranks(directory, result);
  join_shards(result);
  result.written = written_files(directory, world_size);
  return result;
}

}  // namespace lockstep::trace
