#include <algorithm>

#include "harness/report/renderer.h"

namespace lockstep::report {

const std::vector<Format>& formats() {
  static const std::vector<Format> rows = {
      {.kind = "text", .make = [] { return make_text_renderer(/*color=*/false); }},
      {.kind = "json", .make = make_json_renderer},
      {.kind = "junit", .make = make_junit_renderer},
      {.kind = "html", .make = make_html_renderer, .draws = Draws::kCurvesAndMaps},
      {.kind = "markdown", .make = make_markdown_renderer},
      {.kind = "github", .make = make_github_renderer},
      {.kind = "in-toto", .make = make_in_toto_renderer, .vouches_for_files = true},
      {.kind = "csv", .make = make_csv_renderer, .draws = Draws::kCurves},
      {.kind = "tensorboard", .make = nullptr, .draws = Draws::kCurves, .files = tensorboard_files},
  };
  return rows;
}

const Format* find_format(const std::string& kind) {
  const std::vector<Format>& all = formats();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Format& one) { return one.kind == kind; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace lockstep::report
