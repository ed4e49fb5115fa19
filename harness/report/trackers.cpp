// Curves of all runs, for experiment trackers.
#include <map>
#include <utility>

#include "harness/base/text.h"
#include "harness/report/event_file.h"
#include "harness/report/renderer.h"

namespace lockstep::report {
namespace {

/// A run with its curve. *Lifetime*: of the plan and the verdict.
using Tracked = std::pair<const plan::Run&, const std::vector<golden::CurvePoint>&>;

/// Runs that recorded a curve, in the order of the plan.
std::vector<Tracked> tracked(const judge::Verdict& verdict, const plan::Plan& plan) {
  std::map<std::string, const judge::Curve*> curves;
  for (const judge::Pictures& pictures : verdict.pictures) {
    for (const judge::Curve& curve : pictures.curves) {
      for (const std::string& run : curve.runs) curves[pictures.scenario + "/" + run] = &curve;
    }
  }
  std::vector<Tracked> all;
  for (const plan::Run& run : plan.runs) {
    if (const auto found = curves.find(run.name); found != curves.end()) all.emplace_back(run, found->second->points);
  }
  return all;
}

std::string cell_of(const std::optional<double>& number) { return number ? to_decimal(*number) : ""; }

/// Names of scenarios and variants hold no sign that CSV quotes. *Source*: RFC 4180.
class CsvRenderer : public Renderer {
 public:
  std::string render(const judge::Verdict& verdict, const plan::Plan& plan) const override {
    std::string text = "scenario,variant,repeat,step,loss,gradient_norm,learning_rate\n";
    for (const auto& [run, curve] : tracked(verdict, plan)) {
      const std::string begin = run.scenario + "," + run.variant + "," + std::to_string(run.repeat) + ",";
      for (const golden::CurvePoint& point : curve)
        text += begin + std::to_string(point.step) + "," + cell_of(point.loss) + "," + cell_of(point.gradient) + "," +
                cell_of(point.rate) + "\n";
    }
    return text;
  }
};

}  // namespace

std::unique_ptr<Renderer> make_csv_renderer() { return std::make_unique<CsvRenderer>(); }

Files tensorboard_files(const judge::Verdict& verdict, const plan::Plan& plan) {
  Files files;
  for (const auto& [run, curve] : tracked(verdict, plan))
    files[std::filesystem::path(run.name) / kEventFile] = event_file(curve);
  return files;
}

}  // namespace lockstep::report
