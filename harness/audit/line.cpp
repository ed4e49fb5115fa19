#include "harness/audit/line.h"

namespace lockstep::audit {

std::string_view name_of(Answer answer) {
  switch (answer) {
    case Answer::kIdentical:
      return "identical";
    case Answer::kRounding:
      return "rounding";
    case Answer::kHolds:
      return "holds";
    case Answer::kSame:
      return "same";
    case Answer::kNoIdentity:
      return "no identity";
    case Answer::kHidden:
      return "hidden";
    case Answer::kNotSeen:
      return "not seen";
    case Answer::kEmpirical:
      return "empirical";
    case Answer::kOther:
      return "other";
    case Answer::kSlip:
      return "slip";
    case Answer::kChanges:
      return "changes";
    case Answer::kBroken:
      return "broken";
    case Answer::kCannotTell:
      return "cannot tell";
    case Answer::kMeasured:
      return "measured";
  }
  return "";
}

std::string_view name_of(Section section) {
  switch (section) {
    case Section::kRecipe:
      return "recipe";
    case Section::kQuantities:
      return "quantities";
    case Section::kIdentities:
      return "identities";
    case Section::kMatrix:
      return "matrix";
    case Section::kMeasured:
      return "measured";
  }
  return "";
}

bool is_finding(const Line& line) {
  switch (line.answer) {
    case Answer::kBroken:
    case Answer::kChanges:
      return true;
    case Answer::kSlip:
      return line.section != Section::kMatrix;  // there it is somebody else's recipe
    case Answer::kIdentical:
    case Answer::kRounding:
    case Answer::kHolds:
    case Answer::kSame:
    case Answer::kNoIdentity:
    case Answer::kHidden:
    case Answer::kNotSeen:
    case Answer::kEmpirical:
    case Answer::kOther:
    case Answer::kCannotTell:
    case Answer::kMeasured:
      return false;
  }
  return false;
}

}  // namespace lockstep::audit
