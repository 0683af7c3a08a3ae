#pragma once

// Every call into LibTorch stands inside guarded(): the device is current, and what LibTorch throws comes out as Error.

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>

#include <optional>
#include <string>

#include "base/error.h"

namespace motley {

// What needs no gradients skips autograd altogether.
using WithoutAutograd = at::AutoDispatchBelowADInplaceOrView;

// `describe_work()` begins the message.
template <class Describe, class Body>
auto guarded(c10::Device device, const Describe& describe_work, const Body& body) {
  const auto describe = [&] { return std::string(describe_work()); };
  try {
    const c10::OptionalDeviceGuard guard(device.is_cpu() ? std::nullopt : std::optional(device));
    return body();
  } catch (const c10::OutOfMemoryError& error) {
    throw Error(ErrorKind::kUnavailable,
                "out of memory on " + device.str() + " in " + describe() + ": " + error.what_without_backtrace());
  } catch (const c10::NotImplementedError& error) {
    throw Error(ErrorKind::kUnsupported,
                describe() + " does not exist on " + device.str() + ": " + error.what_without_backtrace());
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kInvalidInput,
                describe() + " failed on " + device.str() + ": " + error.what_without_backtrace());
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {  // "derivative for aten::... is not implemented"
    throw Error(ErrorKind::kUnsupported, describe() + " does not exist: " + error.what());
  }
}

}  // namespace motley
