#pragma once

#include <string>

namespace lockstep::report {

/// A whole page with style and script around a body. It may load nothing, and runs no script but its own: a policy in
/// its head says so (CSP), by the script's SHA-256. *Source*: W3C, Content Security Policy Level 3.
std::string html_page(const std::string& title, const std::string& body);

}  // namespace lockstep::report
