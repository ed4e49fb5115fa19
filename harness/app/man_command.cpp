// The manual page, as troff. *Source*: groff_man(7).
#include <cctype>

#include "harness/app/command_pages.h"
#include "harness/app/commands.h"
#include "harness/base/console.h"

namespace lockstep::app {
namespace {

/// Text that troff prints as it stands.
std::string as_troff(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  const bool is_request = !out.empty() && (out[0] == '.' || out[0] == '\'');
  return is_request ? "\\&" + out : out;
}

/// "--json FILE", in bold and italics.
std::string entry_of(const Argument& argument) {
  std::string out;
  for (const std::string& name : argument.names) out += (out.empty() ? "\\fB" : ", \\fB") + as_troff(name) + "\\fR";
  return out + (argument.value.empty() ? "" : " \\fI" + as_troff(argument.value) + "\\fR");
}

std::string paragraph_of(const Argument& argument) {
  return ".TP\n" + entry_of(argument) + "\n" + as_troff(argument.text) + "\n";
}

std::string section_of(const CommandPage& page) {
  std::string out = ".SS " + as_troff(page.name()) + "\n" + as_troff(page.text) + ".\n";
  for (const Argument& word : page.words) {
    Argument named = word;
    named.value.clear();
    out += paragraph_of(named);
  }
  for (const Argument& option : page.options) out += paragraph_of(option);
  return out;
}

std::string manual_of(const CLI::App& app) {
  const CommandPage root = command_page(app);
  const std::string said = app.version();
  const std::string version = said.substr(0, said.find_first_of(" ,", sizeof "lockstep"));  // neither commit nor build
  std::string out = ".TH LOCKSTEP 1 \"\" \"" + version + "\" \"User Commands\"\n.SH NAME\nlockstep \\- " +
                    as_troff(root.text) + "\n.SH SYNOPSIS\n.B lockstep\n.I command\n.RI [ options ]\n.SH OPTIONS\n";
  for (const Argument& option : root.options) out += paragraph_of(option);
  out += ".SH COMMANDS\n";
  for (const CommandPage* page : all_pages(root)) {
    if (page != &root) out += section_of(*page);
  }
  return out + ".SH EXIT STATUS\n" + as_troff(app.get_footer()) + "\n";
}

}  // namespace

void add_man(CLI::App& app, Action& action) {
  app.add_subcommand("man", "Print the manual page: lockstep man | man -l -")->callback([&app, &action] {
    action = [text = manual_of(app)] {
      print_page(stdout, text);
      return 0;
    };
  });
}

}  // namespace lockstep::app
