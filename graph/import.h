#pragma once

// A PyTorch program becomes the forward part of a graph.
//
// Arguments stand in schema order under their schema's names. The program is made functional: an in-place op becomes
// its functional twin and whoever looks at that memory later, through a view or not, sees the new value. State is
// written only by ops that say so in Op::writes: batch_norm in training mode, an in-place op on a whole buffer,
// aten::copy_ where a buffer gets a new value. What changes no result is gone: assertions, symbolic-size arithmetic,
// casts to the same dtype, dropout that does nothing, copies that nobody writes to, and whatever the loss does not
// need.
//
// A program that went through run_decompositions() is read too; but PyTorch drops detach and no_grad on that way, so
// train from the program as torch.export.export returns it.

#include "graph/graph.h"
#include "graph/pt2_file.h"

namespace motley {

// Forward ops alone: no backward, no groups, no layouts (BatchLayout is not set). Parameters that several names share
// are one tensor under the first name that the program uses. Throws Error naming file, node and source line:
// kInvalidInput for a program without a symbolic batch size, with two symbolic sizes, or without a scalar
// floating-point loss as its first output; kUnsupported for what motley cannot express.
Graph import_pt2(const Pt2File& file);

}  // namespace motley
