#include "graph/fingerprint.h"

#include <openssl/evp.h>

#include <array>

#include "base/error.h"
#include "graph/serialize.h"
#include "proto/graph.pb.h"

namespace motley {

std::string fingerprint_of(const Graph& graph) {
  proto::Graph message = to_proto(graph);
  message.clear_fingerprint();
  const std::string bytes = message.SerializeAsString();
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  MOTLEY_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr) == 1, graph.name);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

}  // namespace motley
