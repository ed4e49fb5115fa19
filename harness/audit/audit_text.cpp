#include "harness/audit/audit_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "harness/base/build_id.h"
#include "harness/base/text.h"

namespace lockstep::audit {
namespace {

constexpr std::size_t kLabel = 13;  ///< width of an answer's column

/// 32 green, 31 red, 33 yellow, 0 none.
int color_of(const Line& line) {
  if (is_finding(line)) return 31;
  const Mood mood = info(line.answer).mood;
  return mood == Mood::kGood ? 32 : mood == Mood::kOpen ? 33 : 0;
}

std::string label(const Line& line, bool color) {
  const std::string text = padded(name_of(line.answer), kLabel);
  const int code = color_of(line);
  if (!color || code == 0) return text;
  return "\033[" + std::to_string(code) + "m" + text + "\033[0m";
}

void add_note(std::string& out, const char* name, const std::string& text) {
  if (!text.empty()) out += "      " + padded(name, 11) + printable(text) + "\n";
}

void add_notes(std::string& out, const Line& line) {
  add_note(out, "at", line.at);
  add_note(out, "cause", line.cause);
  add_note(out, "because", line.because);
  add_note(out, line.answer == Answer::kHidden ? "compare" : "instead", line.instead);
  if (is_finding(line) && line.section != Section::kQuantities) add_note(out, "reproduce", line.reproduce);
}

std::vector<const Line*> of(const Audit& audit, Section section) {
  std::vector<const Line*> lines;
  for (const Line& line : audit.lines) {
    if (line.section == section) lines.push_back(&line);
  }
  return lines;
}

std::string title_of(Section section) { return std::string(info(section).title); }

/// Width of each column of values.
std::vector<std::size_t> widths(const Audit& audit, const std::vector<const Line*>& lines) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < audit.ranks.size(); ++i) {
    std::size_t width = std::to_string(audit.ranks[i]).size();
    for (const Line* line : lines) {
      if (i < line->values.size()) width = std::max(width, line->values[i].size());
    }
    result.push_back(width);
  }
  return result;
}

std::string table(const Audit& audit, bool color) {
  const std::vector<const Line*> lines = of(audit, Section::kQuantities);
  if (lines.empty()) return "";
  std::size_t name = 5;
  for (const Line* line : lines) name = std::max(name, line->text.size());
  const std::vector<std::size_t> columns = widths(audit, lines);
  std::string out = "\n" + title_of(Section::kQuantities) + "\n  " + padded("", kLabel) + padded("ranks", name);
  for (std::size_t i = 0; i < columns.size(); ++i) out += "  " + padded(std::to_string(audit.ranks[i]), columns[i]);
  out += "\n";
  for (const Line* line : lines) {
    out += "  " + label(*line, color) + padded(line->text, name);
    for (std::size_t i = 0; i < line->values.size(); ++i) out += "  " + padded(printable(line->values[i]), columns[i]);
    out += "\n";
    add_notes(out, *line);
  }
  return out;
}

std::string statements(const Audit& audit, Section section, bool color) {
  const std::vector<const Line*> lines = of(audit, section);
  if (lines.empty()) return "";
  std::string out = "\n" + title_of(section) + "\n";
  for (const Line* line : lines) {
    out += "  " + label(*line, color) + printable(line->id) + ": " + printable(line->text) + "\n";
    add_notes(out, *line);
  }
  return out;
}

/// Cells share their reasons, which follow as notes.
std::string matrix(const Audit& audit, bool color) {
  const std::vector<const Line*> lines = of(audit, Section::kMatrix);
  if (lines.empty()) return "";
  std::vector<std::string> notes;
  std::string out = "\n" + title_of(Section::kMatrix) + "\n";
  for (const Line* line : lines) {
    out += "  " + label(*line, color) + printable(line->text);
    const std::string note = line->because + (line->instead.empty() ? "" : "; instead: " + line->instead);
    if (!line->because.empty() && line->cause.empty()) {
      const auto known = std::find(notes.begin(), notes.end(), note);
      out += " [" + std::to_string(known - notes.begin() + 1) + "]\n";
      if (known == notes.end()) notes.push_back(note);
    } else {
      out += "\n";
      add_notes(out, *line);
    }
  }
  for (std::size_t i = 0; i < notes.size(); ++i)
    out += "  [" + std::to_string(i + 1) + "] " + printable(notes[i]) + "\n";
  return out;
}

/// Text in Markdown, also in a cell of a table. A program's command stays text: no HTML, link or image, which a page
/// that shows the audit would take for its own.
std::string cell(const std::string& text) {
  std::string result;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '|':
      case '[':
        result += '\\';
        [[fallthrough]];
      default:
        result += c;
    }
  }
  return result;
}

/// The same as code, where nothing but the mark of its end means something: that is a longer row than any inside.
std::string code(const std::string& text) {
  const std::string shown = printable(text);
  std::size_t longest = 0, row = 0;
  for (const char c : shown) {
    row = c == '`' ? row + 1 : 0;
    longest = std::max(longest, row);
  }
  const std::string mark(longest + 1, '`'), space = longest > 0 ? " " : "";
  return mark + space + shown + space + mark;
}

/// In a cell of a table, whose border means something in code, too.
std::string code_cell(const std::string& text) {
  std::string result;
  for (const char c : code(text)) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

std::string why(const Line& line) {
  std::vector<std::string> parts;
  for (const std::string& part : {line.at, line.cause, line.because, line.instead}) {
    if (!part.empty()) parts.push_back(part);
  }
  return join(parts, ". ");
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}

}  // namespace

std::string to_text(const Audit& audit, bool color) {
  std::string out = printable(audit.headline) + ".\n\n";
  out += "AUDIT  " + std::string(name_of(audit.kind)) + " of " + printable(audit.scenario) + ", variant " +
         printable(audit.variant) + "\n";
  out += "  recipe      " + printable(audit.recipe) + "\n";
  out += table(audit, color);
  for (const SectionInfo& row : kSections) {
    if (row.section == Section::kQuantities) continue;  // the table
    out += row.section == Section::kMatrix ? matrix(audit, color) : statements(audit, row.section, color);
  }
  for (const std::string& text : audit.unexpected.value_or(std::vector<std::string>()))
    out += "\nUNEXPECTED  " + printable(text) + "\n";
  out += "\n" + std::string(name_of(audit.status())) + ": " + std::to_string(audit.lines.size()) + " lines\n";
  return out;
}

std::string to_markdown(const Audit& audit) {
  std::string out = "### Audit of " + std::string(name_of(audit.kind)) + ": " + code(audit.scenario) + ", variant " +
                    code(audit.variant) + "\n\n";
  out += cell(audit.recipe) + "\n\n**" + cell(audit.headline) + "**\n";
  const std::vector<const Line*> quantities = of(audit, Section::kQuantities);
  if (!quantities.empty()) {
    out += "\n| ranks |";
    for (const std::int64_t ranks : audit.ranks) out += " " + std::to_string(ranks) + " |";
    out += " answer | why |\n|---|";
    for (std::size_t i = 0; i < audit.ranks.size() + 2; ++i) out += "---|";
    out += "\n";
    for (const Line* line : quantities) {
      out += "| " + cell(line->text) + " |";
      for (std::size_t i = 0; i < audit.ranks.size(); ++i)
        out += " " + cell(i < line->values.size() ? line->values[i] : "") + " |";
      out += " " + std::string(name_of(line->answer)) + " | " + cell(why(*line)) + " |\n";
    }
  }
  for (const SectionInfo& row : kSections) {
    const std::vector<const Line*> lines = of(audit, row.section);
    if (lines.empty() || row.section == Section::kQuantities) continue;
    out += "\n**" + title_of(row.section) + "**\n\n| line | statement | answer | why |\n|---|---|---|---|\n";
    for (const Line* line : lines)
      out += "| " + code_cell(line->id) + " | " + cell(line->text) + " | " + std::string(name_of(line->answer)) +
             " | " + cell(why(*line)) + " |\n";
  }
  if (!audit.lines.empty()) out += "\nEach line again: " + code(audit.lines.front().reproduce) + ", or another id.\n";
  return out;
}

Json to_json(const Audit& audit) {
  Json lines = Json::array();
  for (const Line& line : audit.lines)
    lines.push_back({{"id", line.id},
                     {"section", name_of(line.section)},
                     {"text", line.text},
                     {"values", line.values},
                     {"answer", name_of(line.answer)},
                     {"because", line.because},
                     {"instead", line.instead},
                     {"at", line.at},
                     {"cause", line.cause},
                     {"finding", is_finding(line)},
                     {"reproduce", line.reproduce}});
  Json result = {{"format", "lockstep.audit/1"},
                 {"build", build_id()},
                 {"audit", name_of(audit.kind)},
                 {"scenario", audit.scenario},
                 {"variant", audit.variant},
                 {"recipe", audit.recipe},
                 {"answer", audit.headline},
                 {"status", name_of(audit.status())},
                 {"exit_code", exit_code(audit.status())},
                 {"ranks", audit.ranks},
                 {"unexpected", audit.unexpected.value_or(std::vector<std::string>())},
                 {"lines", lines}};
  if (audit.kind == Kind::kScaling) {
    result["samples_per_update"] = numbers(audit.batch);
    result["learning_rate"] = numbers(audit.rate);
    result["first_update"] = numbers(audit.update);
  }
  return result;
}

}  // namespace lockstep::audit
