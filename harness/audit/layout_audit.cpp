#include "harness/audit/layout_audit.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "harness/audit/measured.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/trace/batch_share.h"

namespace lockstep::audit {
namespace {

constexpr const char* kSame = "same@";
constexpr const char* kLaws = "laws@";

void require_program(const Recipe& recipe) {
  if (!recipe.is_ours()) return;
  throw InputError({.what = "lockstep's worker has one layout",
                    .where = "variant '" + recipe.variant().name + "'",
                    .expected = "a program",
                    .actual = "a recipe of lockstep's worker"});
}

void require_several(const std::vector<Layout>& layouts, const std::string& where) {
  if (layouts.size() >= 2) return;
  throw InputError({.what = "there are no layouts to compare",
                    .where = where,
                    .expected = "two or more, in --layouts or under 'layouts' of an audit's file",
                    .actual = std::to_string(layouts.size())});
}

/// Samples in the first update, each share of the batch counted once.
std::optional<double> batch_of(const trace::RunTrace& run) {
  return samples_in_update(trace::one_rank_for_each_share(run));
}

bool begins_alike(const trace::Step& one, const trace::Step& other) {
  return std::all_of(one.records.begin(), one.records.end(), [&](const trace::Record& record) {
    return record.channel != trace::Channel::kRng || trace::same_bits(&record, other.find(record.channel, record.name));
  });
}

/// Whether every rank computes a share of its own, as many on both sides, from the same generators: then nothing that a
/// rank does by itself makes a difference.
bool ranks_do_alike(const trace::RunTrace& one, const trace::RunTrace& other, std::int64_t until) {
  const auto shares = static_cast<std::int64_t>(one.ranks.size());
  if (one.ranks.size() != other.ranks.size() || trace::batch_shares_of(one) != shares ||
      trace::batch_shares_of(other) != shares)
    return false;
  for (std::size_t rank = 0; rank < one.ranks.size(); ++rank) {
    for (const trace::Step& step : one.ranks[rank].steps) {
      const trace::Step* const theirs = other.ranks[rank].find(step.step);
      if (step.step <= until && (theirs == nullptr || !begins_alike(step, *theirs))) return false;
    }
  }
  return true;
}

std::string layout_of(const Line& line) { return line.id.substr(line.id.find('@') + 1); }

/// "another training: data.sampler_options (step 0, samples ids, rank 1)"
std::string what_is(const Line& line) {
  if (is_equality(line.answer)) return in_words(line.answer);
  if (line.answer == Answer::kCannotTell) return "undecided: " + line.because;
  const std::string cause = id_of_cause(line);
  const std::string place = cause.empty() ? line.at : cause + " (" + line.at + ")";
  return (line.section == Section::kRecipe ? "mistaken: " : "another training: ") +
         (line.answer == Answer::kBroken ? place : line.because);
}

}  // namespace

Layouts::Layouts(const scenario::Scenario& scenario, const Request& request) : Examination(scenario, request) {
  require_program(*recipe_);
  require_several(request_.layouts, scenario.file.string());
  require_trainings();
  const Layout& reference = request_.layouts.front();
  for (const Layout& layout : request_.layouts) {
    derivation_.hold(
        {.id = kLaws + layout.name, .section = Section::kRecipe, .text = layout.name + ": the laws of one run hold"},
        patch_of(layout), scenario::CheckKind::kLaws);
    if (&layout == &reference) continue;
    derivation_.compare({.id = kSame + layout.name,
                         .section = Section::kLayouts,
                         .text = layout.name + " computes what " + reference.name + " computes"},
                        patch_of(reference), patch_of(layout));
  }
  derivation_.keep(request_.only, {}, {});
}

Json Layouts::patch_of(const Layout& layout) const {
  Json patch = recipe_->as_written(layout.ranks);
  patch["program"]["arguments"] = layout.arguments;
  if (!layout.promises.empty()) patch["promises"] = layout.promises;
  return patch;
}

void Layouts::require_trainings() {
  std::set<std::string> names;
  std::map<std::string, std::string> layouts;  // by run
  for (const Layout& layout : request_.layouts) {
    const std::string where = "layout '" + layout.name + "'";
    if (!names.insert(layout.name).second)
      throw InputError({.what = "two layouts have one name", .where = where, .expected = "a name of its own"});
    std::string refusal;
    const std::optional<std::string> run = derivation_.variant(patch_of(layout), refusal);
    if (!run) throw InputError({.what = refusal, .where = where});
    const auto [other, is_new] = layouts.emplace(*run, layout.name);
    if (!is_new)
      throw InputError({.what = "two layouts are one training",
                        .where = where,
                        .expected = "another number of ranks, or other arguments, than '" + other->second + "' has"});
  }
}

void Layouts::weigh(Line& line, const Statement& statement, const Answers& answers) const {
  weigh_program(line, statement, answers,
                [&](const trace::RunTrace& one, const trace::RunTrace& other, const compare::Divergence& found) {
                  return excuse_of(one, other, found);
                });
}

std::optional<Excuse> Layouts::excuse_of(const trace::RunTrace& one, const trace::RunTrace& other,
                                         const compare::Divergence& found) const {
  const auto ours = batch_of(one), theirs = batch_of(other);
  if (ours && theirs && *ours != *theirs)
    return Excuse{.answer = Answer::kChanges,
                  .because = "an update takes " + rounded(*theirs, 6) + " samples, not " + rounded(*ours, 6),
                  .instead = "keep the batch over all ranks"};
  if (names_a_mistake(found) || ranks_do_alike(one, other, found.step)) return std::nullopt;
  if (const std::vector<Obstacle> obstacles = obstacles_seen(other, recipe_->variant()); !obstacles.empty())
    return Excuse{.because = reasons(obstacles), .instead = remedies(obstacles)};
  if (gives_other_tensors(one, other, found.step))
    return Excuse{.because = "the same samples are other tensors", .instead = "seed augmentation by epoch and sample"};
  return std::nullopt;
}

std::string Layouts::headline(const Audit& audit) const {
  if (!audit.is_whole) return "these lines alone: " + std::string(name_of(audit.status()));
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> layouts;  // by what they are
  std::set<std::string> others;
  const auto add = [&](const Line& line) {
    const std::string what = what_is(line);
    if (!layouts.contains(what)) order.push_back(what);
    layouts[what].push_back(layout_of(line));
    if (is_finding(line)) others.insert(layout_of(line));
  };
  for (const Line& line : audit.lines) {
    if (line.section == Section::kLayouts) add(line);
  }
  for (const Line& line : audit.lines) {
    if (line.section == Section::kRecipe && is_finding(line) && !others.contains(layout_of(line))) add(line);
  }
  std::vector<std::string> parts;
  for (const std::string& what : order)
    parts.push_back(join(layouts[what], ", ") + (layouts[what].size() == 1 ? " is " : " are ") + what);
  return std::to_string(request_.layouts.size()) + " layouts, against " + request_.layouts.front().name + ": " +
         join(parts, "; ");
}

}  // namespace lockstep::audit
