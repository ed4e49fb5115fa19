#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep {

/// A failure with all that a person needs to fix it. Empty parts are left out of the message.
struct Problem {
  std::string what;
  std::string where;
  std::string expected;
  std::string actual;
  std::string next;
};

/// Problems that a reader can fix together: one or more.
struct ProblemList {
  std::vector<Problem> problems;
};

/// One printable text: `what`, then one indented line for each other part.
std::string describe(const Problem& problem);

/// Several of them, each with its number.
std::string describe(const ProblemList& list);

/// Base of everything that lockstep throws; only the mains catch it.
class Error : public std::runtime_error {
 public:
  explicit Error(Problem problem);
  explicit Error(ProblemList list);
  const Problem& problem() const { return problems_.front(); }
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

/// The command line, the scenario, or a file that the user named is wrong: nothing was judged (exit 2).
class InputError : public Error {
  using Error::Error;
};

/// A file that lockstep wrote earlier cannot be trusted any more: evidence is lost (exit 4).
class DamagedFile : public Error {
  using Error::Error;
};

/// The machine gave out (disk full, no process, no memory): the question stays open (exit 4).
class ResourceError : public Error {
  using Error::Error;
};

/// Somebody ended it, by the keyboard or from the system (exit 130).
class Interrupted : public Error {
  using Error::Error;
};

/// This build or machine cannot do what was asked (exit 77).
class Unsupported : public Error {
  using Error::Error;
};

/// A broken invariant of lockstep itself (exit 2).
class InternalError : public Error {
  using Error::Error;
};

/// Throws InternalError that names the place unless `holds`.
void check(bool holds, const char* invariant, const char* file, int line);

}  // namespace lockstep

/// Checks an invariant in every build type.
#define LOCKSTEP_CHECK(invariant) ::lockstep::check(static_cast<bool>(invariant), #invariant, __FILE__, __LINE__)
