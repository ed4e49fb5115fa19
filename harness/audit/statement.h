#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/audit/answer.h"
#include "harness/scenario/scenario.h"

namespace lockstep::audit {

/// The relation that theory claims of a statement's variants.
enum class Claim {
  kEqual,        ///< equal in exact arithmetic
  kRepeats,      ///< a slip, whose ranks may repeat one rank's work
  kDiffers,      ///< by more than rounding
  kLaw,          ///< a check holds
  kTold,         ///< nothing is claimed: the check shows whether both sides differ
  kSecondOrder,  ///< the difference of two sides falls with the square of the rate
  kImpossible,   ///< the recipe refuses one of the sides
};

/// A statement of an audit and the checks that test it.
struct Statement {
  std::string id;
  Section section = Section::kIdentities;
  std::string text;
  Claim claim = Claim::kEqual;
  Answer if_differs = Answer::kNoIdentity;  ///< answer of kDiffers and kTold, where they do
  Answer if_holds = Answer::kHolds;  ///< answer of a check that holds, where no other separates bits from rounding
  bool by_targets = false;           ///< the reason `because` is that batches hold unequally many targets
  std::string because = {};          ///< why both sides differ, or, of kSecondOrder, why they do so in first order
  std::string instead = {};
  std::vector<std::string> variants = {};   ///< the sides; of kSecondOrder pairs of sides, each at half the rate
  std::optional<std::size_t> check = {};    ///< in the derived scenario: the one that decides
  std::optional<std::size_t> bitwise = {};  ///< the one that separates identical from rounding
  std::vector<std::size_t> laws = {};       ///< those that name the cause, where the sides' recipes differ on purpose
};

/// Whether `only` asks for this line: it is empty, or holds a beginning of the id.
bool is_asked(const std::string& id, const std::vector<std::string>& only);

/// A scenario made for an audit, with the statements that its checks test.
class Derivation {
 public:
  /// `original` holds the recipe in the variant `base`. *Lifetime*: of `original`.
  Derivation(const scenario::Scenario& original, const scenario::Variant& base);

  /// States that the two sides, patches of the recipe, are related as the claim says. A side that is no training makes
  /// the statement impossible, with the reason. `channels`: to compare; empty: all that the check compares.
  void compare(Statement statement, const Json& left, const Json& right, std::vector<trace::Channel> channels = {});

  /// Compares the weights of sides whose rates or reductions differ on purpose. No comparison may name these as causes:
  /// the laws of each side do.
  void compare_weights(Statement statement, const Json& left, const Json& right);

  /// States that a check of one run holds on a patch of the recipe. `laws`: of the check `laws`.
  void hold(Statement statement, const Json& patch, scenario::CheckKind that, std::vector<std::string> laws = {});

  /// States how a resumed training relates to an uninterrupted one. `channels`: to compare;
  /// empty: all that the check `resumes` compares.
  void resume(Statement statement, const Json& straight, const Json& resumed,
              std::vector<trace::Channel> channels = {});

  /// A statement without a check.
  void state(Statement statement) { statements_.push_back(std::move(statement)); }

  /// States that the sides of each pair of patches differ in second order of the rate.
  void second_order(Statement statement, const std::vector<Json>& sides);

  /// Name of the variant with this patch; nothing, with `refusal`, where that is no training.
  std::optional<std::string> variant(const Json& patch, std::string& refusal);

  /// Leaves the statements that are asked, their checks, and the variants that they need, beside those of `needed`.
  /// *Throws*: InputError for one of `only` that no id begins with.
  void keep(const std::vector<std::string>& only, const std::vector<std::string>& other_ids,
            const std::vector<std::string>& needed);

  const scenario::Scenario& scenario() const { return scenario_; }
  const std::vector<Statement>& statements() const { return statements_; }

 private:
  /// Adds a check of a statement's variants; returns its place.
  std::size_t add(const Statement& statement, scenario::CheckSpec check);
  bool resolve(Statement& statement, const std::vector<Json>& patches);

  const scenario::Variant& base_;
  scenario::Scenario scenario_;
  std::vector<Statement> statements_;
};

}  // namespace lockstep::audit
