#include "harness/trace/collective_record.h"

#include <charconv>

namespace lockstep::trace {

std::optional<Collective> collective_of(const Record& record) {
  if (record.channel != Channel::kCollective) return std::nullopt;
  const std::string_view text = record.text;
  Collective collective{.operation = text.substr(0, text.find(' ')), .dtype = {}, .elements = std::nullopt};
  const std::size_t open = text.find('['), close = text.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos || collective.operation.size() >= open)
    return collective;
  const std::size_t begin = collective.operation.size() + 1;
  collective.dtype = text.substr(begin, open - begin);
  std::int64_t elements = 0;
  const auto [end, error] = std::from_chars(text.data() + open + 1, text.data() + close, elements);
  if (error == std::errc() && end == text.data() + close) collective.elements = elements;
  return collective;
}

}  // namespace lockstep::trace
