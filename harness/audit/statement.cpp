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

std::optional<std::size_t> Derivation::add(CheckSpec check) {
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
    const auto check = [&](CheckKind that, std::vector<trace::Channel> on) {
      return add({.that = that,
                  .name = statement.id,
                  .variants = statement.variants,
                  .channels = std::move(on),
                  .factor = {},
                  .laws = {},
                  .straight = {},
                  .interrupted = {},
                  .expect = {}});
    };
    if (statement.claim == Claim::kDiffers) {
      statement.check = check(CheckKind::kDiffers, std::move(channels));
    } else {
      statement.check = check(CheckKind::kRounding, channels);
      if (channels.empty()) channels = {trace::Channel::kGradient, trace::Channel::kWeight};
      statement.bitwise = check(CheckKind::kEqual, std::move(channels));
    }
  }
  statements_.push_back(std::move(statement));
}

void Derivation::compare_weights(Statement statement, const Json& left, const Json& right) {
  compare(std::move(statement), left, right, {trace::Channel::kWeight});
  Statement& made = statements_.back();
  for (const std::string& side : made.variants) {
    for (const CheckKind that : {CheckKind::kReduction, CheckKind::kLaws}) {
      CheckSpec check;
      check.that = that;
      check.name = made.id;
      check.variants = {side};
      made.laws.push_back(*add(std::move(check)));
    }
  }
}

void Derivation::hold(Statement statement, const Json& patch, CheckSpec check) {
  statement.claim = Claim::kLaw;
  if (resolve(statement, {patch})) {
    check.name = statement.id;
    check.variants = statement.variants;
    statement.check = add(std::move(check));
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
  const auto is_wanted = [&](const std::string& id) {
    return std::any_of(only.begin(), only.end(), [&](const std::string& begin) { return id.rfind(begin, 0) == 0; });
  };
  std::vector<std::string> ids = other_ids;
  for (const Statement& statement : statements_) ids.push_back(statement.id);
  for (const std::string& begin : only) {
    if (std::any_of(ids.begin(), ids.end(), [&](const std::string& id) { return id.rfind(begin, 0) == 0; })) continue;
    throw InputError({.what = "no line of the audit begins with '" + begin + "'",
                      .where = "--only",
                      .expected = "one of: " + join(ids, ", "),
                      .next = suggest(begin, ids)});
  }
  std::erase_if(statements_, [&](const Statement& statement) { return !is_wanted(statement.id); });

  std::vector<CheckSpec> checks;
  std::set<std::string> variants(needed.begin(), needed.end());
  const auto keep_check = [&](std::optional<std::size_t>& index) {
    if (!index) return;
    checks.push_back(scenario_.checks[*index]);
    index = checks.size() - 1;
  };
  for (Statement& statement : statements_) {
    keep_check(statement.check);
    keep_check(statement.bitwise);
    for (std::size_t& law : statement.laws) {
      std::optional<std::size_t> index = law;
      keep_check(index);
      law = *index;
    }
    variants.insert(statement.variants.begin(), statement.variants.end());
  }
  scenario_.checks = std::move(checks);
  std::erase_if(scenario_.variants, [&](const Variant& variant) { return !variants.contains(variant.name); });
}

}  // namespace lockstep::audit
