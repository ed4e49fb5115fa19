#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/trace/trace.h"

/// Cells of a golden's table: all that a golden keeps of one record. docs/goldens.md describes their form.
namespace lockstep::golden {

/// A record as a golden keeps it: what explains one run would make goldens ten times as large.
trace::Record as_kept(trace::Record record);

/// Type of a tensor: "float32[6,1,3,3]".
std::string type_of(const trace::Record& record);

/// The cell of a record, without its type: digest and norm, or the value where the digest follows from it.
std::string cell_of(const trace::Record& record);

/// The record of a cell's words, which may begin with a type; else it has the type `usual`.
/// *Throws*: std::exception.
trace::Record record_from(trace::Channel channel, const std::string& name, std::string_view usual,
                          std::vector<std::string_view> words);

}  // namespace lockstep::golden
