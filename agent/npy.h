#pragma once

// NumPy's .npy files, versions 1 to 3 (NumPy enhancement proposal 1): one array, C order, little endian.

#include <filesystem>
#include <string>

#include "runtime/safetensors.h"

namespace motley {

// The array of `path`, whose mapped bytes are `file`; its name is left empty. Throws Error with the path:
// kInvalidInput when the file is not a whole .npy file or its array is in Fortran order or big endian, kUnsupported for
// a dtype that motley lacks.
NamedTensor parse_npy(const std::filesystem::path& path, std::span<const std::byte> file);

}  // namespace motley
