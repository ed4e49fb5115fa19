#include "harness/base/console.h"

#include <functional>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

/// What `print` writes to a stream.
std::string printed(const std::function<void(std::FILE*)>& print) {
  std::FILE* stream = std::tmpfile();
  print(stream);
  std::string text(static_cast<std::size_t>(std::ftell(stream)), '\0');
  std::rewind(stream);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), stream), text.size());
  std::fclose(stream);
  return text;
}

TEST(Console, ALineStaysOneLine) {
  EXPECT_EQ(printed([](std::FILE* to) { print_line(to, "a\n::error::b"); }), "a\\n::error::b\n");
}

TEST(Console, JsonIsAsciiAndHoldsNoCommand) {
  const Json value = {{"k\n", "##vso[x] ### \u202e \x7f \u00e9"}};
  const std::string text = printed([&](std::FILE* to) { print_json(to, value); });
  EXPECT_EQ(Json::parse(text), value);
  EXPECT_EQ(text.find("##"), std::string::npos) << text;
  for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c < 0x7f)) << text;
}

}  // namespace
}  // namespace lockstep
