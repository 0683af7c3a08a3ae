#pragma once

// The Communicator between the memories of CUDA devices, one rank per device.
//
// Order with compute. All communication runs on streams of its own, beside the compute stream. `ready` events of the
// calls make it wait for compute: record an event on the compute stream after the op that made the data (or, for a
// receive, after the last one that used the buffer) and hand it in; the stream waits for it on the device. The other
// way round, Pending::wait and the collectives block the calling thread until the data is there, after which any op may
// be launched; Pending::order_before makes a stream wait instead and blocks only until the message has been started on
// both sides. Memory that a message reads or writes must not be given back to LibTorch's allocator before that
// (Executor::hold_for_stream, or keep the tensor until wait() returned).
//
// A Gloo communicator among the same ranks goes with it: it says which messages both sides have (MessageMatcher), and
// notices at once when a peer dies, which NCCL does not. Connections between two ranks are made at their first message.
//
// Not all is there: int16 has no sum in NCCL and is refused; two ranks on one GPU are refused by NCCL.

#include <memory>

#include "runtime/communicator.h"

namespace motley {

// `cuda_device` as CUDA counts in this process. Blocks until all ranks are connected. Throws Error(kUnavailable) that
// names the rank that is missing, or tells what CUDA or NCCL said.
std::unique_ptr<Communicator> make_nccl_communicator(const Rendezvous& rendezvous, int cuda_device);

}  // namespace motley
