# Writes an enum for each closed list of a recipe: cmake -DSCHEMA=FILE -DOUTPUT=FILE -P recipe_kinds.cmake
# The build includes this file with both variables set.

file(READ ${SCHEMA} schema)

# kName of a name in the schema: kWarmupCosine of warmup_cosine.
function(enumerator_of name result)
  string(REPLACE "_" ";" parts "${name}")
  set(text "k")
  foreach(part ${parts})
    string(SUBSTRING "${part}" 0 1 first)
    string(SUBSTRING "${part}" 1 -1 rest)
    string(TOUPPER "${first}" first)
    string(APPEND text "${first}${rest}")
  endforeach()
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# Appends the enum `type` of such names to recipe_kinds, with kUnknown before them, and its names.
function(append_enum type)
  set(values "kUnknown")
  set(names "\"\"")
  foreach(name ${ARGN})
    enumerator_of(${name} value)
    string(APPEND values ", ${value}")
    string(APPEND names ", \"${name}\"")
  endforeach()
  set(recipe_kinds "${recipe_kinds}enum class ${type} { ${values} };
template <>
inline constexpr auto kNames<${type}> = std::to_array<std::string_view>({${names}});

" PARENT_SCOPE)
endfunction()

# The enum of a definition's kinds, and more that the schema does not have.
function(append_kinds type definition)
  string(JSON count LENGTH "${schema}" definitions ${definition} anyOf)
  math(EXPR last "${count} - 1")
  set(names ${ARGN})
  foreach(i RANGE ${last})
    string(JSON kind GET "${schema}" definitions ${definition} anyOf ${i} properties kind const)
    list(APPEND names ${kind})
  endforeach()
  append_enum(${type} ${names})
  set(recipe_kinds "${recipe_kinds}" PARENT_SCOPE)
endfunction()

# The enum of the values that the schema lists at a place below its definitions.
function(append_values type)
  string(JSON count LENGTH "${schema}" definitions ${ARGN} enum)
  math(EXPR last "${count} - 1")
  set(names "")
  foreach(i RANGE ${last})
    string(JSON name GET "${schema}" definitions ${ARGN} enum ${i})
    list(APPEND names ${name})
  endforeach()
  append_enum(${type} ${names})
  set(recipe_kinds "${recipe_kinds}" PARENT_SCOPE)
endfunction()

# The enum of the values of one kind's option.
function(append_option type definition kind option)
  string(JSON count LENGTH "${schema}" definitions ${definition} anyOf)
  math(EXPR last "${count} - 1")
  foreach(i RANGE ${last})
    string(JSON name GET "${schema}" definitions ${definition} anyOf ${i} properties kind const)
    if(name STREQUAL kind)
      append_values(${type} ${definition} anyOf ${i} properties ${option})
    endif()
  endforeach()
  set(recipe_kinds "${recipe_kinds}" PARENT_SCOPE)
endfunction()

append_kinds(ModelKind model)
append_kinds(DataKind data)
append_kinds(SamplerKind sampler)
append_kinds(OptimizerKind optimizer adagrad)  # which only recorders of programs see
append_kinds(ScheduleKind schedule)
append_kinds(RateRuleKind learning_rate_rule)
append_values(Precision train properties precision)
append_values(Autocast train properties autocast)
append_values(ScheduleEvery train properties schedule_every)
append_values(LossAverage loss properties average)
append_values(SeedPolicy seed properties policy)
append_values(Algorithms determinism properties algorithms)
append_values(Compression ddp properties compression)
append_values(Shares evaluation properties shares)
append_values(EvaluationAverage evaluation properties average)
append_values(EvaluationReduce evaluation properties reduce)
set(load checkpoint properties load properties)
append_values(KeyMatch ${load} keys properties match)
append_values(LoadPick ${load} pick)
append_values(LoadWho ${load} who)
append_values(LoadWhen ${load} when)
append_values(LoadEpoch ${load} epoch)
append_option(Norm model resnet norm)
append_option(Augmentation data image_folder augment)
append_option(TextBy data text by)
append_values(Curve schedule_phase properties curve)
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${recipe_kinds}" @ONLY)

