#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

/// A rank that its supervisor did not start itself says in a file of the run's folder that it is there, and how it
/// leaves. `launch/attendance.h` reads it.
namespace lockstep {

/// Variable that names the run of a rank, and of all that it starts: by it they are found when the run ends.
inline constexpr const char* kRunIdVariable = "LOCKSTEP_RUN_ID";

/// "rank3.attendance"
std::filesystem::path attendance_path(const std::filesystem::path& run_directory, std::int64_t rank);

std::string name_of_this_host();

/// Writes that this process is a rank of the run, or, with a code, that it is about to exit. Failures are ignored: then
/// only the end of whoever started it is seen.
void write_attendance(const std::filesystem::path& path, const std::string& run_id, std::optional<int> code) noexcept;

}  // namespace lockstep
