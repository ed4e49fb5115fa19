#include "harness/trace/writer.h"

#include <utility>

#include "harness/trace/line.h"

namespace lockstep::trace {

Writer::Writer(const std::filesystem::path& path, Json header) : file_(path) {
  header["format"] = kTraceFormat;
  append(line_of_header(header));
}

void Writer::write(const std::string& line) { append(line); }

void Writer::finish() { file_.append(line_of_end(lines_, hash_.hex())); }

void Writer::append(const std::string& line) {
  file_.append(line);
  hash_.update(line);
  ++lines_;
}

}  // namespace lockstep::trace
