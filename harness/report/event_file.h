#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/golden/curve.h"

namespace lockstep::report {

/// CRC-32C of bytes. *Source*: RFC 3720, section 12.1 and appendix B.4.
std::uint32_t crc32c(std::string_view bytes);

/// An event file of TensorBoard with the scalars `loss`, `gradient_norm` and `learning_rate`, 32 bits each. It holds no
/// times: equal curves give equal files.
/// *Source*: TensorFlow's record_writer.h, event.proto and summary.proto; TensorBoard 2.21 reads it.
std::string event_file(const std::vector<golden::CurvePoint>& curve);

}  // namespace lockstep::report
