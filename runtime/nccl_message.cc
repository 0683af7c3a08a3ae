#include "runtime/nccl_message.h"

#include <string>

#include "base/error.h"

namespace motley {

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kFloat64:
      return ncclFloat64;
    case DType::kInt64:
      return ncclInt64;
    case DType::kInt32:
      return ncclInt32;
    case DType::kInt8:
      return ncclInt8;
    case DType::kUInt8:
    case DType::kBool:
      return ncclUint8;
    case DType::kInt16:
      break;
  }
  throw Error(ErrorKind::kUnsupported, "NCCL cannot sum " + to_string(dtype) + ": keep it on one device");
}

}  // namespace motley
