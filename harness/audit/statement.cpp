#include "harness/audit/statement.h"

#include <algorithm>
#include <set>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep::audit {

using scenario::CheckKind;
using scenario::CheckSpec;
using scenario::Variant;

namespace {

CheckSpec check_of(CheckKind that, std::vector<trace::Channel> channels = {}) {
  CheckSpec check;
  check.that = that;
  check.channels = std::move(channels);
  return check;
}

}  // namespace

bool is_asked(const std::string& id, const std::vector<std::string>& only) {
  return only.empty() ||
         std::any_of(only.begin(), only.end(), [&](const std::string& begin) { return id.rfind(begin, 0) == 0; });
}

Derivation::Derivation(const scenario::Scenario& original, const Variant& base) : base_(base), scenario_(original) {
  scenario_.practices.clear();
  scenario_.variants.clear();
  scenario_.checks.clear();
  scenario_.repeats = 1;
}

std::optional<std::string> Derivation::variant(const Json& patch, std::string& refusal) {
  Variant made;
  try {
    made = scenario::mutated(base_, patch, scenario_.file.string());
  } catch (const InputError& error) {
    const Problem& first = error.problems().front();
    refusal = first.what + (first.expected.empty() ? "" : "; expected " + first.expected) +
              (first.actual.empty() ? "" : ", not " + first.actual);
    return std::nullopt;
  }
  const auto same = std::find_if(scenario_.variants.begin(), scenario_.variants.end(), [&](const Variant& one) {
    return one.world_size == made.world_size && one.train_json == made.train_json &&
           one.program_json == made.program_json && one.promises_json == made.promises_json;
  });
  if (same != scenario_.variants.end()) return same->name;
  made.name = "w" + std::to_string(made.world_size) + "." + std::to_string(scenario_.variants.size());
  made.mutation_of.clear();
  scenario_.variants.push_back(made);
  return made.name;
}

std::size_t Derivation::add(const Statement& statement, CheckSpec check) {
  check.name = statement.id;
  if (check.variants.empty()) check.variants = statement.variants;
  scenario_.checks.push_back(std::move(check));
  return scenario_.checks.size() - 1;
}

bool Derivation::resolve(Statement& statement, const std::vector<Json>& patches) {
  for (const Json& patch : patches) {
    std::string refusal;
    const auto name = variant(patch, refusal);
    if (!name) {
      statement.claim = Claim::kImpossible;
      statement.because = refusal;
      statement.variants.clear();
      return false;
    }
    statement.variants.push_back(*name);
  }
  return true;
}

void Derivation::compare(Statement statement, const Json& left, const Json& right,
                         std::vector<trace::Channel> channels) {
  if (resolve(statement, {left, right})) {
    if (statement.claim == Claim::kDiffers) {
      statement.check = add(statement, check_of(CheckKind::kDiffers, std::move(channels)));
    } else {
      statement.check = add(statement, check_of(CheckKind::kRounding, channels));
      if (channels.empty()) channels = {trace::Channel::kGradient, trace::Channel::kWeight};
      statement.bitwise = add(statement, check_of(CheckKind::kEqual, std::move(channels)));
    }
  }
  statements_.push_back(std::move(statement));
}

void Derivation::compare_weights(Statement statement, const Json& left, const Json& right) {
  compare(std::move(statement), left, right, {trace::Channel::kWeight});
  Statement& made = statements_.back();
  for (const std::string& side : made.variants) {
    for (const CheckKind that : {CheckKind::kReduction, CheckKind::kLaws}) {
      CheckSpec check = check_of(that);
      check.variants = {side};
      made.laws.push_back(add(made, std::move(check)));
    }
  }
}

void Derivation::hold(Statement statement, const Json& patch, CheckKind that, std::vector<std::string> laws) {
  statement.claim = Claim::kLaw;
  if (resolve(statement, {patch})) {
    CheckSpec check = check_of(that);
    check.laws = std::move(laws);
    statement.check = add(statement, std::move(check));
  }
  statements_.push_back(std::move(statement));
}

void Derivation::resume(Statement statement, const Json& straight, const Json& resumed,
                        std::vector<trace::Channel> channels) {
  if (resolve(statement, {straight, resumed})) {
    CheckSpec check = check_of(CheckKind::kResumes, std::move(channels));
    check.straight = statement.variants[0];
    check.interrupted = statement.variants[1];
    statement.check = add(statement, std::move(check));
  }
  statements_.push_back(std::move(statement));
}

void Derivation::second_order(Statement statement, const std::vector<Json>& sides) {
  statement.claim = Claim::kSecondOrder;
  resolve(statement, sides);
  statements_.push_back(std::move(statement));
}

void Derivation::keep(const std::vector<std::string>& only, const std::vector<std::string>& other_ids,
                      const std::vector<std::string>& needed) {
  if (only.empty()) return;
  std::vector<std::string> ids = other_ids;
  for (const Statement& statement : statements_) ids.push_back(statement.id);
  for (const std::string& begin : only) {
    if (std::any_of(ids.begin(), ids.end(), [&](const std::string& id) { return is_asked(id, {begin}); })) continue;
    throw InputError({.what = "no line of the audit begins with '" + begin + "'",
                      .where = "--only",
                      .expected = "one of: " + join(ids, ", "),
                      .next = suggest(begin, ids)});
  }
  std::erase_if(statements_, [&](const Statement& statement) { return !is_asked(statement.id, only); });

  std::vector<CheckSpec> checks;
  std::set<std::string> variants(needed.begin(), needed.end());
  const auto keep_check = [&](std::size_t& index) {
    checks.push_back(scenario_.checks[index]);
    index = checks.size() - 1;
  };
  for (Statement& statement : statements_) {
    for (std::optional<std::size_t>* const check : {&statement.check, &statement.bitwise}) {
      if (*check) keep_check(**check);
    }
    for (std::size_t& law : statement.laws) keep_check(law);
    variants.insert(statement.variants.begin(), statement.variants.end());
  }
  scenario_.checks = std::move(checks);
  for (const Variant& variant : scenario_.variants) {
    const std::vector<std::string> sources = scenario::sources_of(variant);
    if (variants.contains(variant.name)) variants.insert(sources.begin(), sources.end());
  }
  std::erase_if(scenario_.variants, [&](const Variant& variant) { return !variants.contains(variant.name); });
}

}  // namespace lockstep::audit
