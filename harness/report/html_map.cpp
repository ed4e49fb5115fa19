#include "harness/report/html_map.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "harness/base/text.h"
#include "harness/laws/held.h"
#include "harness/report/html_chart.h"
#include "harness/report/html_text.h"

namespace lockstep::report {
namespace {

using judge::Cell;
using judge::Map;
using judge::Relates;
using judge::Row;

/// Pixels of a strip: height, most of its width, and width of a column.
constexpr std::size_t kStrip = 16, kStrips = 270, kLeastColumn = 5, kMostColumn = 20;

/// Columns without words of their own where so many runs of equal cells change.
constexpr std::size_t kMostRunsWithTitles = 24;

/// Looks of a cell: its height says the same as its colour.
struct Look {
  Relates relates;
  const char* name;  ///< of its class
  const char* color;
  std::size_t height;
};

constexpr std::array<Look, 7> kLooks = {{{Relates::kNotCompared, "none", "#b5b5b5", 2},
                                         {Relates::kEqual, "equal", "#3f9b67", 6},
                                         {Relates::kHidden, "hidden", "#7d7d7d", 9},
                                         {Relates::kRounding, "rounding", "#d9a520", 9},
                                         {Relates::kUnmeasured, "differs", "#d2691e", 13},
                                         {Relates::kBeyond, "beyond", "#c62f2f", 16},
                                         {Relates::kMissing, "missing", "#8a4fb0", 16}}};

const Look& look_of(Relates relates) { return kLooks[static_cast<std::size_t>(relates)]; }

std::size_t column_width(const Map& map) {
  return std::clamp(kStrips / std::max<std::size_t>(1, map.columns.size()), kLeastColumn, kMostColumn);
}

/// A bar from `x` on, with a gap of one pixel behind it.
std::string bar_at(std::size_t x, std::size_t width, const Look& look) {
  return "M" + std::to_string(x) + " " + std::to_string(kStrip - look.height) + "h" + std::to_string(width - 1) + "v" +
         std::to_string(look.height) + "h-" + std::to_string(width - 1) + "z";
}

/// "step 3", "steps 3 to 7".
std::string steps_in(const Map& map, std::size_t first, std::size_t last) {
  const std::int64_t from = map.columns[first].first, to = map.columns[last].last;
  return from == to ? "step " + std::to_string(from) : "steps " + std::to_string(from) + " to " + std::to_string(to);
}

/// Neighbours of one relation share a bar.
std::string strip_of(const Map& map, const std::vector<Relates>& cells) {
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i == 0 || cells[i] != cells[i - 1]) runs.emplace_back(i, 0);
    ++runs.back().second;
  }
  const std::size_t column = column_width(map);
  std::string out = "<svg class=\"strip\" aria-hidden=\"true\" width=\"" + std::to_string(cells.size() * column) +
                    "\" height=\"" + std::to_string(kStrip) + "\">";
  std::map<Relates, std::string> paths;
  for (const auto& [begin, count] : runs) {
    const Look& look = look_of(cells[begin]);
    const std::string bar = bar_at(begin * column, count * column, look);
    if (runs.size() > kMostRunsWithTitles) {
      paths[look.relates] += bar;
    } else {
      out += "<path class=\"" + std::string(look.name) + "\" fill=\"" + look.color + "\" d=\"" + bar + "\"><title>" +
             steps_in(map, begin, begin + count - 1) + ": " + std::string(name_of(look.relates)) + "</title></path>";
    }
  }
  for (const auto& [relates, path] : paths)
    out += "<path class=\"" + std::string(look_of(relates).name) + "\" fill=\"" + look_of(relates).color + "\" d=\"" +
           path + "\"/>";
  return out + "</svg>";
}

std::vector<Relates> relations_of(const std::vector<Cell>& cells) {
  std::vector<Relates> all;
  for (const Cell& cell : cells) all.push_back(cell.relates);
  return all;
}

/// Distances in shares of the bound; nothing where no distance was measured.
double share_of(const Cell& cell) {
  return cell.distance && cell.bound && *cell.bound > 0 ? *cell.distance / *cell.bound : 0;
}

/// "beyond rounding from step 3 (rank 1), 120× the bound": the largest distance.
std::string note_on(const Map& map, const std::vector<Cell>& cells) {
  const auto worst =
      std::max_element(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) { return a.relates < b.relates; });
  std::string note(name_of(worst->relates));
  if (worst->relates > Relates::kEqual) {
    const auto column = static_cast<std::size_t>(worst - cells.begin());
    note += " from step " + std::to_string(map.columns[column].first);
    if (worst->rank > 0) note += " (rank " + std::to_string(worst->rank) + ")";
  }
  double most = 0;
  for (const Cell& cell : cells) most = std::max(most, share_of(cell));
  return most > 0 ? note + ", " + rounded(most, 2) + "\u00d7 the bound" : note;
}

/// Classes of all relations in a row, for the filter.
std::string relations_in(const std::vector<Cell>& cells) {
  std::set<Relates> all;
  for (const Cell& cell : cells) all.insert(cell.relates);
  std::string names;
  for (const Relates relates : all) names += (names.empty() ? "" : " ") + std::string(look_of(relates).name);
  return names;
}

/// A module: its rows by the words to show, and the modules in it.
struct Module {
  std::string name = {};
  std::vector<std::pair<std::string, std::size_t>> rows = {};
  std::vector<Module> modules = {};  ///< in the order of the model

  Module& child(const std::string& wanted) {
    for (Module& module : modules) {
      if (module.name == wanted) return module;
    }
    modules.push_back({.name = wanted});
    return modules.back();
  }
};

/// Name of the parameter that a row is of, and the words before and behind it.
struct Named {
  std::string before, parameter, behind;
};

Named named(const Row& row, const std::set<std::string>& parameters) {
  if (trace::info(row.channel).is_gradient()) {
    const std::string parameter = laws::parameter_of(row.tensor);
    return {row.tensor.substr(0, row.tensor.size() - parameter.size()), parameter, ""};
  }
  if (trace::info(row.channel).names != trace::Names::kParametersAndState) return {"", row.tensor, ""};
  for (std::size_t dot = row.tensor.rfind('.'); dot != std::string::npos && dot > 0;
       dot = row.tensor.rfind('.', dot - 1)) {
    if (parameters.contains(row.tensor.substr(0, dot)))
      return {"", row.tensor.substr(0, dot), " " + row.tensor.substr(dot + 1)};
  }
  return {"", row.tensor, ""};
}

/// Whether a channel's names are paths in the model.
bool is_in_model(trace::Channel channel) {
  return trace::info(channel).is_of_parameters() || channel == trace::Channel::kBuffer;
}

Module tree_of(const Map& map) {
  std::set<std::string> parameters;
  for (const Row& row : map.rows) {
    if (trace::info(row.channel).names == trace::Names::kParameters) parameters.insert(laws::parameter_of(row.tensor));
  }
  Module root;
  for (std::size_t i = 0; i < map.rows.size(); ++i) {
    const Row& row = map.rows[i];
    if (!is_in_model(row.channel)) {
      root.child("batch, losses and counters").rows.emplace_back(row.tensor, i);
      continue;
    }
    const Named name = named(row, parameters);
    Module* module = &root.child("model");
    std::size_t begin = 0;
    for (std::size_t dot = name.parameter.find('.'); dot != std::string::npos; dot = name.parameter.find('.', begin)) {
      module = &module->child(name.parameter.substr(begin, dot - begin));
      begin = dot + 1;
    }
    module->rows.emplace_back(name.before + name.parameter.substr(begin) + name.behind, i);
  }
  return root;
}

/// Writes the tree of one map.
class Tree {
 public:
  Tree(const Map& map, const std::string& id) : map_(map), id_(id) {}

  std::string html() const {
    std::string out;
    for (const Module& module : tree_of(map_).modules) out += html_of_module(module.name, module, 0);
    return out + (map_.ranks.size() > 1 ? html_of_ranks() : "");
  }

 private:
  bool holds_first(const Module& module) const {
    return map_.first && (std::any_of(module.rows.begin(), module.rows.end(),
                                      [&](const auto& row) { return row.second == map_.first->row; }) ||
                          std::any_of(module.modules.begin(), module.modules.end(),
                                      [&](const Module& child) { return holds_first(child); }));
  }

  /// The worst of all rows in a module, by column.
  std::vector<Relates> worst_of(const Module& module) const {
    std::vector<Relates> worst(map_.columns.size(), Relates::kNotCompared);
    const auto take = [&](const std::vector<Relates>& cells) {
      for (std::size_t i = 0; i < worst.size(); ++i) worst[i] = std::max(worst[i], cells[i]);
    };
    for (const auto& row : module.rows) take(relations_of(map_.rows[row.second].cells));
    for (const Module& child : module.modules) take(worst_of(child));
    return worst;
  }

  /// A branch that folds, up to its content.
  std::string branch(const std::string& name, const std::vector<Relates>& worst, std::size_t depth,
                     bool is_open) const {
    return "<details class=\"module d" + std::to_string(std::min<std::size_t>(depth, 5)) + "\"" +
           (is_open ? " open" : "") + "><summary><span class=\"name\">" + html_of(name) + "</span> " +
           strip_of(map_, worst) + " <span class=\"note\">" +
           std::string(name_of(*std::max_element(worst.begin(), worst.end()))) + "</span></summary>";
  }

  std::string html_of_module(const std::string& name, const Module& module, std::size_t depth) const {
    std::string out = branch(name, worst_of(module), depth, holds_first(module));
    for (const Module& child : module.modules) out += html_of_module(child.name, child, depth + 1);
    if (!module.rows.empty()) out += "<ul>";
    for (const auto& [words, row] : module.rows) out += html_of_row(words, row);
    return out + (module.rows.empty() ? "" : "</ul>") + "</details>\n";
  }

  std::string html_of_row(const std::string& words, std::size_t index) const {
    const Row& row = map_.rows[index];
    const bool is_first = map_.first && map_.first->row == index;
    return line(std::string(trace::name_of(row.channel)), words, row.cells, is_first);
  }

  std::string line(const std::string& channel, const std::string& words, const std::vector<Cell>& cells,
                   bool is_first) const {
    return "<li class=\"row" + std::string(is_first ? " first" : "") + "\"" +
           (is_first ? html_attribute("id", id_ + "-first") + " tabindex=\"-1\"" : "") + " data-has=\"" +
           relations_in(cells) + "\"><span class=\"name\"><span class=\"quiet\">" + html_of(channel) + "</span> " +
           html_of(words) + "</span> " + strip_of(map_, relations_of(cells)) + " <span class=\"note\">" +
           (is_first ? "<b>first difference</b>, " : "") + note_on(map_, cells) + "</span></li>";
  }

  std::string html_of_ranks() const {
    std::string rows;
    std::vector<Relates> worst(map_.columns.size(), Relates::kNotCompared);
    for (const auto& [rank, cells] : map_.ranks) {
      rows += line("rank", std::to_string(rank), cells, false);
      for (std::size_t i = 0; i < worst.size(); ++i) worst[i] = std::max(worst[i], cells[i].relates);
    }
    return branch("ranks", worst, 0, map_.left == map_.right) + "<ul>" + rows + "</ul></details>\n";
  }

  const Map& map_;
  const std::string& id_;
};

std::string legend_of(const Map& map) {
  std::set<Relates> all;
  for (const Row& row : map.rows) {
    for (const Cell& cell : row.cells) all.insert(cell.relates);
  }
  std::string out = "<ul class=\"legend\">";
  for (const Relates relates : all) {
    out += "<li><svg width=\"9\" height=\"16\" aria-hidden=\"true\"><path class=\"" +
           std::string(look_of(relates).name) + "\" fill=\"" + look_of(relates).color + "\" d=\"" +
           bar_at(0, 10, look_of(relates)) + "\"/></svg> " + std::string(name_of(relates)) + "</li>";
  }
  return out + "</ul>";
}

/// Numbers of steps above the strips.
std::string ruler_of(const Map& map) {
  const std::size_t column = column_width(map), stride = (40 + column - 1) / column;
  std::string out = "<div class=\"ruler\"><span class=\"name\">step</span> <svg aria-hidden=\"true\" width=\"" +
                    std::to_string(map.columns.size() * column + 20) +
                    "\" height=\"12\" font-family=\"sans-serif\" font-size=\"10\">";
  for (std::size_t i = 0; i < map.columns.size(); i += stride)
    out += "<text class=\"tick\" x=\"" + std::to_string(i * column) + "\" y=\"10\">" +
           std::to_string(map.columns[i].first) + "</text>";
  return out + "</svg></div>";
}

/// The row to draw distances of; null if none was measured.
const Row* leading_row(const Map& map) {
  const auto measured = [](const Row& row) {
    return std::count_if(row.cells.begin(), row.cells.end(),
                         [](const Cell& cell) { return cell.distance.has_value(); });
  };
  if (map.first && measured(map.rows[map.first->row]) > 1) return &map.rows[map.first->row];
  const Row* nearest = nullptr;
  double most = 0;
  for (const Row& row : map.rows) {
    if (measured(row) < 2) continue;
    for (const Cell& cell : row.cells) {
      if (share_of(cell) <= most) continue;
      most = share_of(cell);
      nearest = &row;
    }
  }
  return nearest;
}

}  // namespace

std::string html_of(const Map& map, const std::string& id) {
  const bool shares = std::any_of(map.columns.begin(), map.columns.end(),
                                  [](const judge::Column& column) { return column.first != column.last; });
  std::string out = "<section class=\"map\"" + html_attribute("id", id) + "><h4>Compared: " +
                    html_of(map.left == map.right ? "the ranks of " + map.left : map.left + " and " + map.right) +
                    "</h4>";
  if (map.first) out += "<p><a" + html_attribute("href", "#" + id + "-first") + ">Jump to the first difference</a></p>";
  out += legend_of(map);
  if (shares) out += "<p class=\"quiet\">A column is several steps: it shows the worst of them.</p>";
  return out + "<div class=\"wide\"><div class=\"tree\">" + ruler_of(map) + Tree(map, id).html() +
         "</div></div></section>\n";
}

std::string growth_of(const Map& map) {
  const Row* const row = leading_row(map);
  if (row == nullptr) return "";
  Chart chart{.title = "Distance of " + std::string(trace::name_of(row->channel)) + " " + row->tensor +
                       " between the sides (L2), and what rounding explains",
              .series = {{"distance", {}}, {"bound of rounding", {}, /*is_limit=*/true}},
              .logarithmic = true};
  for (std::size_t i = 0; i < row->cells.size(); ++i) {
    const Cell& cell = row->cells[i];
    const auto step = static_cast<double>(map.columns[i].first);
    if (cell.distance) chart.series[0].points.push_back({step, *cell.distance});
    if (cell.relates == Relates::kEqual) chart.series[0].points.push_back({step, 0});
    if (cell.bound && *cell.bound > 0) chart.series[1].points.push_back({step, *cell.bound});
  }
  return html_of(chart);
}

}  // namespace lockstep::report
