#pragma once

// How long a message waits to be seen at a device that computes (MessageCosts::pause).

#include "base/units.h"

namespace motley {

// Mean over moments drawn from two seconds, while that many threads of this process compute: how much later
// than without them a thread that slept until such a moment runs. That is when the scheduler gives it a turn. In a
// control group with a CPU quota it waits for the next period as well, and longer than the quota's own figures say: the
// kernel notices a spent quota only at its next tick.
Seconds message_pause(int threads);

}  // namespace motley
