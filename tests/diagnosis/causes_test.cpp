// The table of causes is closed: what it lists, what is printed and what the documents show are one.
#include "harness/diagnosis/causes.h"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "harness/base/files.h"
#include "harness/report/cause_text.h"

#include "tests/support/support.h"

namespace lockstep::diagnosis {
namespace {

TEST(Causes, EveryRowIsWhole) {
  std::set<std::string_view> ids;
  for (const Cause& cause : causes()) {
    EXPECT_TRUE(ids.insert(cause.id).second) << cause.id << " comes twice";
    EXPECT_TRUE(std::regex_match(std::string(cause.id), std::regex("[a-z]+\\.[a-z0-9_]+"))) << cause.id;
    EXPECT_TRUE(cause.sentence.ends_with('.') && cause.remedy.ends_with('.')) << cause.id;
    EXPECT_EQ(find_cause(cause.id), &cause);
  }
  EXPECT_GE(ids.size(), 100U);
}

TEST(Causes, AnUnknownOneIsNone) {
  EXPECT_EQ(find_cause("grad.reduce_sun"), nullptr);
  EXPECT_EQ(find_cause(""), nullptr);
}

TEST(Causes, OneIsPrintedWithItsRemedyAndSources) {
  const std::string text = report::to_text(*find_cause("data.not_sharded"));
  for (const char* part :
       {"data.not_sharded (semantic)", "what    Every rank takes all the data", "remedy  Give each",
        "source  https://github.com/huggingface/transformers/pull/11254\n", "datasets/issues/5360\n"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

/// The text of all sources but the table.
std::string sources() {
  std::string all;
  for (const auto& file : std::filesystem::recursive_directory_iterator(test::source_root() / "harness")) {
    if (file.path().extension() == ".cpp" && file.path().filename() != "causes.cpp") all += read_file(file.path());
  }
  return all;
}

TEST(Causes, WhatNoFindingNamesSaysSo) {
  const std::string all = sources();
  for (const Cause& cause : causes()) {
    const bool named = all.find('"' + std::string(cause.id) + '"') != std::string::npos;
    EXPECT_EQ(named, cause.is_named) << cause.id;
    EXPECT_EQ(report::to_text(cause).find("not recognised yet") == std::string::npos, named) << cause.id;
  }
}

/// A literal of a cause's family that is no row is a finding that nobody can look up.
TEST(Causes, EveryIdInTheSourcesIsARow) {
  std::string families;
  for (const Cause& cause : causes()) {
    const std::string family(cause.id.substr(0, cause.id.find('.')));
    if (families.find("|" + family) == std::string::npos) families += "|" + family;
  }
  const std::regex id("\"((?:" + families.substr(1) + ")\\.[a-z0-9_]+)\"");
  std::size_t seen = 0;
  for (const char* folder :
       {"laws", "compare", "diagnosis", "checks", "golden", "report", "decision", "experiment", "app"}) {
    for (const auto& file : std::filesystem::recursive_directory_iterator(test::source_root() / "harness" / folder)) {
      if (!file.is_regular_file()) continue;
      const std::string text = read_file(file.path());
      for (std::sregex_iterator at(text.begin(), text.end(), id); at != std::sregex_iterator(); ++at, ++seen)
        EXPECT_NE(find_cause((*at)[1].str()), nullptr) << (*at)[1] << " in " << file.path();
    }
  }
  EXPECT_GT(seen, causes().size());
}

/// What refutes a cause follows its class, but for these.
TEST(Causes, ExceptionsToWhatRefutesAClass) {
  std::set<std::string_view> exceptions;
  for (const Cause& cause : causes()) {
    const unsigned of_class = refuters_of(cause.class_);
    if ((cause.refuted_by & of_class) != of_class) exceptions.insert(cause.id);
  }
  EXPECT_EQ(exceptions, (std::set<std::string_view>{"fp.lowprec_accumulate", "fp.precision_mode", "hw.sdc_rank"}));
  for (const char* order : {"fp.reduction_order", "fp.unordered_threads", "comm.race"})
    EXPECT_TRUE(find_cause(order)->refuted_by & kToldOtherwise) << order;
  EXPECT_FALSE(find_cause("fp.rounding")->refuted_by & kToldOtherwise);
}

TEST(Causes, TheListHasALineForEach) {
  const std::string list = report::list_of_causes();
  EXPECT_EQ(static_cast<std::size_t>(std::count(list.begin(), list.end(), '\n')), causes().size());
}

/// Otherwise: build/bin/lockstep explain --markdown >docs/causes.md
TEST(Causes, TheDocumentIsTheTable) {
  EXPECT_EQ(read_file(test::source_root() / "docs/causes.md"), report::markdown_of_causes());
}

}  // namespace
}  // namespace lockstep::diagnosis
