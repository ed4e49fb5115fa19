// Scenarios of somebody's own training program.
#include <gtest/gtest.h>

#include "harness/plan/plan.h"
#include "harness/scenario/changes.h"
#include "harness/scenario/program_spec.h"

#include "tests/scenario/loading.h"

namespace lockstep::scenario::test {
namespace {

using lockstep::test::Scratch;

Json program_document(const Json& program = {
                          {"command", {"torchrun", "--nproc-per-node", "{world_size}", "train.py"}}}) {
  return {{"name", "own"},
          {"description", "A program of one's own."},
          {"world_size", 2},
          {"program", program},
          {"checks", {{{"that", "ranks_agree"}}}}};
}

std::string digest_of(const Scratch& scratch, const Json& document) {
  return plan::make_plan({load_scenario(scratch.write("s.json", document.dump()))}).runs.at(0).train_digest;
}

/// Digests of the files that its command names.
Json named_by(const Scratch& scratch, const Json& document) {
  const plan::Plan plan = plan::make_plan({load_scenario(scratch.write("s.json", document.dump()))});
  return std::get<plan::CommandProgram>(plan.runs.at(0).program).header.at("inputs");
}

TEST(Program, OptionsFollowTheCommand) {
  const Json options = {{"--lr", 0.1}, {"--nesterov", true}, {"--amp", false}, {"--betas", {0.9, "0.99"}}};
  const Scenario scenario = load(program_document({{"command", {"python", "train.py"}}, {"arguments", options}}));
  ASSERT_TRUE(scenario.variants.at(0).program);
  EXPECT_EQ(scenario.variants[0].program->command,
            (std::vector<std::string>{"python", "train.py", "--betas", "0.9", "0.99", "--lr", "0.1", "--nesterov"}));
}

TEST(Program, VariantsAndMatrixChangeOptions) {
  Json document = program_document({{"command", {"python", "t.py"}}, {"arguments", {{"--lr", 0.1}, {"--seed", 1}}}});
  document["variants"] = {{"a", Json::object()}, {"b", {{"program", {{"arguments", {{"--seed", false}}}}}}}};
  document["matrix"] = {{"program.arguments.--lr", {0.1, 0.2}}};
  const Scenario scenario = load(document);
  ASSERT_EQ(scenario.variants.size(), 4U);
  EXPECT_EQ(scenario.variants[1].program->command,
            (std::vector<std::string>{"python", "t.py", "--lr", "0.2", "--seed", "1"}));
  EXPECT_EQ(scenario.variants[3].program->command, (std::vector<std::string>{"python", "t.py", "--lr", "0.2"}));
}

TEST(Program, PlaceholdersAreFilledIn) {
  const Placeholders values = {{"world_size", "3"}, {"folder", "/r"}};
  EXPECT_EQ(filled_in("{world_size}x{folder}/out", values), "3x/r/out");
  EXPECT_EQ(filled_in("{{world_size}", values), "{world_size}");
  EXPECT_EQ(filled_in(R"({"a": 1} {0} {A} {)", values), R"({"a": 1} {0} {A} {)") << "other braces are no placeholders";
}

TEST(Program, AnUnknownPlaceholderIsRefused) {
  const Problem problem = problem_of(program_document({{"command", {"torchrun", "{worldsize}"}}}));
  EXPECT_EQ(problem.what, "unknown placeholder '{worldsize}'");
  EXPECT_NE(problem.expected.find("world_size"), std::string::npos);
  EXPECT_NE(problem.next.find("world_size"), std::string::npos) << problem.next;
}

TEST(Program, AVariantHasOneTraining) {
  Json both = minimal();
  both["program"] = program_document()["program"];
  EXPECT_EQ(problem_of(both).what, "a variant has two trainings");
  Json neither = minimal();
  neither.erase("train");
  EXPECT_NE(problem_of(neither).what.find("'train' or 'program'"), std::string::npos);
  Json promised = minimal();
  promised["promises"] = {{"steps", 3}};
  EXPECT_NE(problem_of(promised).what.find("'promises' describe a program"), std::string::npos);
}

TEST(Program, ItsRanksCannotBePlaced) {
  Json document = program_document();
  document["launch"] = {{"arrival_delay_ms", {10}}};
  EXPECT_NE(problem_of(document).what.find("starts its ranks itself"), std::string::npos);
}

TEST(Program, OnlyWhatIsPromisedIsKnown) {
  Json document = program_document();
  EXPECT_FALSE(load(document).variants[0].knows("batch"));
  document["promises"] = {{"batch", {{"global", 8}}}, {"sampler", {{"shuffle", false}}}, {"steps", 7}};
  const Variant variant = load(document).variants[0];
  EXPECT_TRUE(variant.knows("batch") && variant.knows("sampler") && variant.knows("steps"));
  EXPECT_FALSE(variant.knows("schedule") || variant.knows("data"));
  EXPECT_EQ(variant.train.batch.rank_size(2), 4);
  EXPECT_EQ(variant.train.sampler.kind, recipe::SamplerKind::kDistributed);
  EXPECT_EQ(variant.train.steps, 7);
  EXPECT_TRUE(load(minimal()).variants[0].knows("schedule")) << "our own worker's recipe is known whole";
}

TEST(Program, ControlsReachItThroughItsEnvironment) {
  const Variant variant = load(program_document()).variants[0];
  const Json threads = {{"train", {{"determinism", {{"threads", 1}}}, {"record", {{"capture", {{{"step", 0}}}}}}}}};
  const Variant one_thread = patched(variant, threads, "s.json");
  EXPECT_EQ(one_thread.launch.environment.at("OMP_NUM_THREADS"), "1");
  EXPECT_EQ(Json::parse(one_thread.launch.environment.at("LOCKSTEP_CONTROL")), (Json{{"threads", 1}}));
  const Json bucket = {{"train", {{"ddp", {{"bucket_mb", 4096}}}}}};
  EXPECT_EQ(Json::parse(patched(variant, bucket, "s.json").launch.environment.at("LOCKSTEP_CONTROL")),
            (Json{{"bucket_mb", 4096}}));
  const Json recorded = {{"train", {{"record", {{"channels", {"weight"}}}}}}};
  EXPECT_EQ(patched(variant, recorded, "s.json").program->record.channels, (std::vector<std::string>{"weight"}));
  const Json cpu = {{"train", {{"determinism", {{"cpu", "portable"}}}}}};
  EXPECT_EQ(patched(variant, cpu, "s.json").launch.environment.at("ATEN_CPU_CAPABILITY"), "avx2");
  try {
    patched(variant, {{"train", {{"precision", "float64"}}}}, "s.json");
    FAIL() << "a program has no such switch";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problem().what, "the program has no way to compute in float64: program.float64 is missing");
  }
}

TEST(Program, IsBoundToInstructionSets) {
  Json document = program_document();
  document["program"]["cpu"] = "portable";
  const Variant bound = load(document).variants[0];
  EXPECT_EQ(bound.program->environment.at("ATEN_CPU_CAPABILITY"), "avx2");
  EXPECT_EQ(bound.program->environment.at("ONEDNN_MAX_CPU_ISA"), "AVX2");
  EXPECT_EQ(bound.program->environment.at("MKL_CBWR"), "COMPATIBLE");
  EXPECT_EQ(bound.train.determinism.cpu, "portable") << "its goldens are looked up by it";
  document["program"]["environment"]["MKL_CBWR"] = "AVX2";
  EXPECT_THROW(load(document), InputError) << "two instruction sets are asked for";
}

TEST(Program, Float64IsWhatItsAuthorSays) {
  Json document = program_document({{"command", {"python", "t.py"}}, {"arguments", {{"--lr", 0.1}}}});
  document["program"]["float64"] = {{"arguments", {{"--dtype", "float64"}}}, {"environment", {{"WIDE", "1"}}}};
  const Variant wide = patched(load(document).variants[0], {{"train", {{"precision", "float64"}}}}, "s.json");
  EXPECT_EQ(wide.program->command, (std::vector<std::string>{"python", "t.py", "--dtype", "float64", "--lr", "0.1"}));
  EXPECT_EQ(wide.program->environment.at("WIDE"), "1");
  const Scratch scratch;
  const std::string digest = digest_of(scratch, document);
  document["program"].erase("float64");
  EXPECT_EQ(digest_of(scratch, document), digest) << "it says nothing of what is trained";
}

TEST(Program, DelaysAreOfStepsAlone) {
  const Json delays = {{"launch", {{"arrival_delay_ms", {300}}, {"step_delay_ms", {20}}}}};
  const Variant late = patched(load(program_document()).variants[0], delays, "s.json");
  EXPECT_EQ(late.launch.step_delay_ms, (std::vector<std::int64_t>{20}));
}

TEST(Program, OnlyACommandThatTakesItsRanksRunsOnOthers) {
  const Json one_rank = {{"world_size", 1}};
  EXPECT_EQ(patched(load(program_document()).variants[0], one_rank, "s.json").world_size, 1);
  const Variant fixed =
      load(program_document({{"command", {"torchrun", "--nproc-per-node", "2", "t.py"}}})).variants[0];
  EXPECT_EQ(patched(fixed, {{"world_size", 2}}, "s.json").world_size, 2);
  EXPECT_THROW(patched(fixed, one_rank, "s.json"), InputError);
}

TEST(Program, AnOptionWithADotIsChangedAgain) {
  const Json left = {{"program", {{"arguments", {{"--a", 1}}}}}};
  const Json right = {{"program", {{"arguments", {{"--a", 1}, {"--trainer.steps/epoch", 2}}}}}};
  const std::vector<Change> changes = changes_between(left, right);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].path(), "program.arguments.--trainer.steps/epoch");
  Json again = left;
  again.merge_patch(patch_of(changes));
  EXPECT_EQ(again, right);
}

TEST(Program, DigestFollowsCommandAndFilesNotPlaceNorRecording) {
  const Scratch here, there;
  for (const Scratch* scratch : {&here, &there}) scratch->write("train.py", "print()");
  here.write("data/a.bin", "1");
  const std::string digest = digest_of(here, program_document());
  const Json named = named_by(here, program_document());
  EXPECT_EQ(digest_of(there, program_document()), digest);
  EXPECT_EQ(named_by(there, program_document()), named);
  Json recorded = program_document();
  recorded["program"]["record"] = {{"every", 5}};
  recorded["promises"] = {{"steps", 5}};
  recorded["program"]["alone"] = false;
  EXPECT_EQ(digest_of(here, recorded), digest);
  Json other = program_document();
  other["program"]["arguments"] = {{"--lr", 1}};
  EXPECT_NE(digest_of(here, other), digest);
  other = program_document();
  other["program"]["environment"] = {{"SEED", "1"}};
  EXPECT_NE(digest_of(here, other), digest);
  Json with_input = program_document();
  with_input["program"]["inputs"] = {"data"};
  const std::string of_data = digest_of(here, with_input);
  EXPECT_NE(of_data, digest);
  here.write("data/a.bin", "2");
  EXPECT_NE(digest_of(here, with_input), of_data);
  here.write("train.py", "print(1)");
  EXPECT_EQ(digest_of(here, program_document()), digest) << "the program might write it";
  EXPECT_NE(named_by(here, program_document()), named) << "the command names this file";
}

TEST(Program, MissingInputsAreAnInputError) {
  const Scratch scratch;
  Json document = program_document();
  document["program"]["inputs"] = {"data.bin"};
  try {
    digest_of(scratch, document);
    FAIL() << "planned";
  } catch (const InputError& error) {
    EXPECT_NE(error.problem().where.find("program.inputs"), std::string::npos) << error.problem().where;
  }
}

}  // namespace
}  // namespace lockstep::scenario::test
