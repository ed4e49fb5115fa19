#pragma once

#include <string>

#include "harness/judge/pictures.h"

namespace lockstep::report {

/// A map as a tree of the model's modules that folds. Each record has a strip of steps, each module the worst of its
/// records. `id`: of the element; the first difference has `id`-first.
std::string html_of(const judge::Map& map, const std::string& id);

/// Distance of the two sides step by step, beside the bound of rounding. It is of the record that differs first, else
/// of the one that comes nearest to its bound. Empty if fewer than two steps were measured.
std::string growth_of(const judge::Map& map);

}  // namespace lockstep::report
