#include "tests/parity/pairwise.h"

#include <set>
#include <utility>

namespace lockstep::test {
namespace {

using Value = std::pair<std::size_t, std::size_t>;  ///< factor, index
using Pair = std::pair<Value, Value>;

Pair ordered(const Value& a, const Value& b) { return a < b ? Pair(a, b) : Pair(b, a); }

std::set<Pair> all_pairs(const std::vector<Factor>& factors) {
  std::set<Pair> pairs;
  for (std::size_t f = 0; f < factors.size(); ++f) {
    for (std::size_t g = f + 1; g < factors.size(); ++g) {
      for (std::size_t i = 0; i < factors[f].values.size(); ++i) {
        for (std::size_t j = 0; j < factors[g].values.size(); ++j) pairs.insert({{f, i}, {g, j}});
      }
    }
  }
  return pairs;
}

}  // namespace

std::vector<std::vector<std::size_t>> pairwise(const std::vector<Factor>& factors) {
  std::set<Pair> missing = all_pairs(factors);
  std::vector<std::vector<std::size_t>> cases;
  while (!missing.empty()) {
    std::vector<Value> chosen{missing.begin()->first, missing.begin()->second};
    std::set<std::size_t> decided{chosen[0].first, chosen[1].first};
    for (std::size_t f = 0; f < factors.size(); ++f) {
      if (decided.contains(f)) continue;
      // Ties go round, so that no value is a favourite.
      const std::size_t count = factors[f].values.size();
      std::size_t best = 0, most = 0;
      for (std::size_t k = 0; k < count; ++k) {
        const Value value{f, (cases.size() + k) % count};
        std::size_t gained = 1;
        for (const Value& other : chosen) gained += missing.contains(ordered(value, other)) ? 1 : 0;
        if (gained > most) best = value.second, most = gained;
      }
      chosen.emplace_back(f, best);
    }
    std::vector<std::size_t> one(factors.size());
    for (const auto& [factor, index] : chosen) one[factor] = index;
    for (std::size_t a = 0; a < chosen.size(); ++a) {
      for (std::size_t b = a + 1; b < chosen.size(); ++b) missing.erase(ordered(chosen[a], chosen[b]));
    }
    cases.push_back(one);
  }
  return cases;
}

}  // namespace lockstep::test
