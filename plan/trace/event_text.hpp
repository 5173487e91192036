// What an instruction is called and what kind of work it is, in every drawing and table of traces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plan/trace/trace.hpp"

namespace tw {

// Kinds of work that a timeline tells apart.
enum class Work : std::uint8_t {
    Forward,
    Backward,  // the whole one, or the input's part
    BackwardWeight,
    ForwardBackward,  // overlapped
    Optimizer,
    Memory,  // stashing, freeing, resharding: on-device copies
    PipelineTransfer,
    DataParallel,  // gradient synchronisation, parameter gathers, the gradient norm
    TensorParallel,
    ExpertParallel,
    Offload,
    Host,
};
inline constexpr int kWorkKinds = 12;

Work work_of(const Instruction& instruction);
constexpr bool is_communication(Work work) {
    return work >= Work::PipelineTransfer && work <= Work::Offload;
}
// On the device's own arithmetic units: what "busy" counts.
constexpr bool is_device_work(Work work) {
    return work <= Work::Memory;
}

std::string_view title(Work work);  // "backward, weights": legends
std::string_view short_name(
    Work work);  // "pp", "dp", "tp", "ep", "offload"; others as in documents: "forward"
// "F mb3 s1", "F mb3 s1 | B mb0 s4", "send activation mb3 s1", "all-reduce s2 part 1", "optimizer step".
std::string event_name(const Instruction& instruction);
// "compute", "p2p", "dp 1": stream and communicator.
std::string lane_name(Stream stream, std::uint16_t communicator);

}  // namespace tw
