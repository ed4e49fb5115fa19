#include "harness/report/renderer.h"

namespace lockstep::report {

const std::vector<Format>& formats() {
  static const std::vector<Format> rows = {
      {"text", [] { return make_text_renderer(/*color=*/false); }},
      {"json", make_json_renderer},
      {"junit", make_junit_renderer},
      {"html", make_html_renderer, /*draws=*/true},
      {"markdown", make_markdown_renderer},
      {"github", make_github_renderer},
      {"in-toto", make_in_toto_renderer, /*draws=*/false, /*vouches_for_files=*/true},
  };
  return rows;
}

}  // namespace lockstep::report
