#include "harness/base/hash.h"

#include <array>

#include <openssl/evp.h>
#include <xxh_x86dispatch.h>  // as xxhash.h, with the widest vectors of this processor

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  LOCKSTEP_CHECK(context_ != nullptr);
  LOCKSTEP_CHECK(EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_)); }

void Sha256::update(std::string_view bytes) {
  LOCKSTEP_CHECK(EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() const {
  EVP_MD_CTX* copy = EVP_MD_CTX_new();
  LOCKSTEP_CHECK(copy != nullptr && EVP_MD_CTX_copy_ex(copy, static_cast<const EVP_MD_CTX*>(context_)) == 1);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  const bool done = EVP_DigestFinal_ex(copy, digest.data(), &size) == 1;
  EVP_MD_CTX_free(copy);
  LOCKSTEP_CHECK(done);
  return to_hex({reinterpret_cast<const char*>(digest.data()), size});
}

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

std::uint64_t checksum(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace lockstep
