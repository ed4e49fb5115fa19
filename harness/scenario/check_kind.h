#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace lockstep::scenario {

/// Kinds of checks, in the order of the schema's branches.
enum class CheckKind {
  kEqual,
  kRounding,
  kDiffers,
  kRepeatable,
  kRanksAgree,
  kRanksDiffer,
  kCovers,
  kLedger,
  kReduction,
  kLaws,
  kResumes,
  kEnvironment,
  kFinishes,
  kGolden,
};

/// The things that a check holds against each other.
enum class Sides {
  kVariants,    ///< runs of two variants or more
  kRepeats,     ///< runs of one variant
  kResumption,  ///< a resumed run and an uninterrupted one
  kGolden,      ///< a run and its accepted trace
  kRanks,       ///< the ranks of one run
  kLaw,         ///< a run and what its recipe says of it
};

/// Relation that must hold between the sides.
enum class Wanted {
  kSameBits,
  kUpToRounding,  ///< equal in exact arithmetic
  kDifferent,     ///< a negative control
  kLaw,           ///< a statement of its own
};

/// Part of the traces that a check reads.
enum class LooksAt {
  kRecords,  ///< what the ranks recorded in their steps
  kHeaders,  ///< what they run on, which their traces begin with
  kEndings,  ///< how the runs ended; no trace is needed
};

/// One row for each kind.
struct CheckTraits {
  CheckKind kind;
  std::string_view name;  ///< "that" of a scenario
  Sides sides;
  Wanted wanted;
  LooksAt looks_at = LooksAt::kRecords;

  /// Whether it holds runs against other runs that are there.
  constexpr bool between_runs() const { return sides == Sides::kVariants || sides == Sides::kResumption; }

  /// Whether variants must have the same bits: then rounding, too, is a difference.
  constexpr bool wants_same_bits() const { return sides == Sides::kVariants && wanted == Wanted::kSameBits; }

  /// Whether variants must agree. `blame` can ask for it.
  constexpr bool wants_agreement() const { return sides == Sides::kVariants && wanted != Wanted::kDifferent; }

  /// Whether it is a negative control between such sides.
  constexpr bool wants_different(Sides between) const { return sides == between && wanted == Wanted::kDifferent; }
};

inline constexpr std::array<CheckTraits, 14> kCheckKinds = {{
    {CheckKind::kEqual, "equal", Sides::kVariants, Wanted::kSameBits},
    {CheckKind::kRounding, "rounding", Sides::kVariants, Wanted::kUpToRounding},
    {CheckKind::kDiffers, "differs", Sides::kVariants, Wanted::kDifferent},
    {CheckKind::kRepeatable, "repeatable", Sides::kRepeats, Wanted::kSameBits},
    {CheckKind::kRanksAgree, "ranks_agree", Sides::kRanks, Wanted::kSameBits},
    {CheckKind::kRanksDiffer, "ranks_differ", Sides::kRanks, Wanted::kDifferent},
    {CheckKind::kCovers, "covers", Sides::kLaw, Wanted::kLaw},
    {CheckKind::kLedger, "ledger", Sides::kLaw, Wanted::kLaw},
    {CheckKind::kReduction, "reduction", Sides::kLaw, Wanted::kLaw},
    {CheckKind::kLaws, "laws", Sides::kLaw, Wanted::kLaw},
    {CheckKind::kResumes, "resumes", Sides::kResumption, Wanted::kSameBits},
    {CheckKind::kEnvironment, "environment", Sides::kRanks, Wanted::kLaw, LooksAt::kHeaders},
    {CheckKind::kFinishes, "finishes", Sides::kLaw, Wanted::kLaw, LooksAt::kEndings},
    {CheckKind::kGolden, "golden", Sides::kGolden, Wanted::kSameBits},
}};

constexpr const CheckTraits& traits_of(CheckKind kind) { return kCheckKinds[static_cast<std::size_t>(kind)]; }
constexpr std::string_view name_of(CheckKind kind) { return traits_of(kind).name; }
std::optional<CheckKind> check_kind_named(std::string_view name);

}  // namespace lockstep::scenario
