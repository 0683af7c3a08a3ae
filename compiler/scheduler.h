#pragma once

// One order of all tasks of all devices, from which every program's order follows: so streams, transfers and
// collectives agree on all devices, and nothing can wait in a circle.

#include <vector>

#include "compiler/task_graph.h"

namespace motley {

struct TaskOrder {
  std::vector<TaskId> order;  // by estimated start; respects data and TaskGraph::order
  double seconds = 0;         // estimated, with each transfer and collective on otherwise idle links
};

// List scheduling: whenever a stream is free, the most urgent of its ready tasks starts. Urgent is, in one pass, what
// the graph has first, and in another what has the highest upward rank (HEFT: Topcuoglu, Hariri, Wu, IEEE TPDS 2002,
// section 4.1; messages of one sender and collectives of one set of members, which share a stream, count as
// successors of each other). The ranks' order
// runs ahead with input gradients that others wait for, and holds activations longer for the weight gradients it puts
// off; so it is taken when it is estimated to be at least one percent faster. Where the devices make passes
// (TaskGraph::passes), an op starts when all ops of the passes before its own have started on its device, and so does a
// message that has a pass of the device that receives it.
TaskOrder schedule(const TaskGraph& graph, DeviceIndex devices);

}  // namespace motley
