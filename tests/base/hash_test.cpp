#include "harness/base/hash.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// FIPS 180-4 examples, as published by NIST (SHA256.pdf, SHA2_Additional.pdf).
TEST(Hash, Sha256KnownVectors) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Hash, Sha256OfPiecesIsThatOfTheWhole) {
  const std::string text(1000, 'x');
  for (const std::size_t cut : {0, 1, 63, 64, 65, 999, 1000}) {
    Sha256 hash;
    hash.update(std::string_view(text).substr(0, cut));
    hash.update(std::string_view(text).substr(cut));
    EXPECT_EQ(hash.hex(), sha256(text)) << cut;
  }
}

TEST(Hash, Sha256GoesOnAfterHex) {
  Sha256 hash;
  hash.update("a");
  EXPECT_EQ(hash.hex(), sha256("a"));
  EXPECT_EQ(hash.hex(), sha256("a"));
  hash.update("bc");
  EXPECT_EQ(hash.hex(), sha256("abc"));
}

// XXH3_64bits with seed 0 of xxHash 0.8: the value for the empty input stands in its test suite.
TEST(Hash, ChecksumIsXxh3) {
  EXPECT_EQ(checksum(""), 0x2d06800538d394c2U);
  EXPECT_NE(checksum("ab"), checksum("ba"));
}

}  // namespace
}  // namespace lockstep
