#pragma once

// What the importer knows of ATen's ops, by their names.

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace motley {

// "aten::add_.Tensor" has the base name "add_" and the overload "Tensor".
std::string_view base_name(std::string_view target);
std::string_view overload_name(std::string_view target);

// Writes its first argument: "aten::relu_.default", but not "aten::__and__.Tensor".
bool is_in_place(std::string_view target);
// "aten::relu_.default" becomes "aten::relu.default".
std::string functional_twin(std::string_view target);

// The outputs share the first argument's storage, always.
bool is_view(std::string_view target);
// ... when the strides allow it: reshape, flatten.
bool is_reshape(std::string_view target);

// No gradient flows through it, though its result is floating-point.
bool cuts_gradient(std::string_view target);
// Draws from the generator, given its arguments (dropout with p = 0 does not).
bool is_random(const Op& op);
// The strides of its result depend on the device that runs it (fused attention).
bool has_device_strides(std::string_view target);
// Its result is dense and row-major, whatever the strides of its inputs.
bool has_dense_result(std::string_view target);

// nullptr when the op was given no such argument.
const ArgumentValue* find_argument(const std::vector<Argument>& arguments, std::string_view name);

}  // namespace motley
