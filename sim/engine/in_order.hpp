// What compile_in_order.cpp is made of: a program on its way, and the nodes so far.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/compiled_schedule.hpp"

namespace tw::in_order {

inline constexpr std::uint32_t kNone = CompiledSchedule::kNone;
// A time index before the lanes are counted: a lane's carry has this bit, the rest are node positions.
inline constexpr std::uint32_t kLane = 0x80000000U;
inline constexpr std::uint32_t kStreams = 7;

struct Lane {
    std::uint32_t number = kNone;
    std::uint32_t last = kNone;
};

// One pipeline rank's program on its way.
struct Cursor {
    const Instruction* at = nullptr;
    const Instruction* end = nullptr;
    const std::uint32_t* wait_begin = nullptr;  // of `at`
    const std::uint32_t* waits = nullptr;       // of the program
    std::uint32_t* end_node = nullptr;          // by index in the program
    std::uint32_t place = 0;                    // of `at` among all instructions
    std::uint32_t slot_base = 0;                // of its classes in a cost table
    std::uint32_t anchor = kNone;               // kNone: the host's carry, numbered when the program ends
    std::uint32_t anchor_since = 0;             // place from which `anchor` holds
    std::uint32_t host_lane = kNone;
    bool ready = false;  // its turn comes
    // By communicator and stream; `lanes` is all_lanes' data.
    Lane* lanes = nullptr;
    std::uint32_t lane_count = 0;
    std::vector<Lane> all_lanes;
    [[nodiscard]] bool done() const { return at == end; }
    [[nodiscard]] std::span<const std::uint32_t> waiting() const {
        return {waits + wait_begin[0], waits + wait_begin[1]};
    }
};

// Whether two transfers are the two ends of one.
inline bool are_partners(const Instruction& a, const Instruction& b) {
    if (a.microbatch != b.microbatch) return false;
    switch (a.opcode) {
        case Opcode::SendActivation:
            return b.opcode == Opcode::RecvActivation && a.stage + 1 == b.stage;
        case Opcode::RecvActivation:
            return b.opcode == Opcode::SendActivation && b.stage + 1 == a.stage;
        case Opcode::SendGrad:
            return b.opcode == Opcode::RecvGrad && b.stage + 1 == a.stage;
        default:
            return b.opcode == Opcode::SendGrad && a.stage + 1 == b.stage;
    }
}

// Nodes with provisional time indices, in arrays as CompiledSchedule's. They are kept from one compilation to
// the next: fresh pages cost more than the work on them.
class Nodes {
  public:
    void start(std::size_t most) {
        size_ = 0;
        carried_.clear();
        for (auto* array : {&pred0_, &pred1_, &slot_, &host0_, &host1_}) {
            if (array->size() < most) array->resize(most);
        }
    }

    std::uint32_t emit(std::uint32_t a, std::uint32_t b, std::uint32_t slot, std::uint32_t host0,
                       std::uint32_t host1) {
        if (((a | b) & kLane) != 0) carried_.push_back(size_);
        pred0_[size_] = a;
        pred1_[size_] = b;
        slot_[size_] = slot;
        host0_[size_] = host0;
        host1_[size_] = host1;
        return size_++;
    }

    [[nodiscard]] std::uint32_t size() const { return size_; }
    // Those with a lane's carry before them.
    [[nodiscard]] const std::vector<std::uint32_t>& carried() const { return carried_; }

    // Whether the last `period` nodes are those before them, later.
    [[nodiscard]] bool repeats(std::uint32_t period) const;
    // Goes on like that.
    void repeat(std::uint32_t period, std::uint32_t times);

    // To final time indices: the lanes come before the nodes, and each carry has its own.
    template <class FinalIndex>
    void move_to(CompiledSchedule& out, const FinalIndex& final_index) const;

  private:
    std::uint32_t size_ = 0;
    std::vector<std::uint32_t> pred0_, pred1_, slot_, host0_, host1_;
    std::vector<std::uint32_t> carried_;
};

inline bool Nodes::repeats(std::uint32_t period) const {
    for (std::uint32_t i = size_ - period; i < size_; ++i) {
        if (pred0_[i] != pred0_[i - period] + period || pred1_[i] != pred1_[i - period] + period ||
            slot_[i] != slot_[i - period])
            return false;
    }
    return true;
}

// Puts `count` entries that end at `begin` behind it, each with `shift` added.
inline void copy_shifted(std::uint32_t* begin, std::uint32_t count, std::uint32_t shift) {
    const std::uint32_t* __restrict from = begin - count;
    std::uint32_t* __restrict to = begin;
    for (std::uint32_t i = 0; i < count; ++i)
        to[i] = from[i] + shift;
}

inline void Nodes::repeat(std::uint32_t period, std::uint32_t times) {
    // An instruction's place moves on by its program's period: as far as from the period before to the last.
    const auto continue_line = [period](std::uint32_t* begin) {
        const std::uint32_t* __restrict last = begin - period;
        const std::uint32_t* __restrict before = last - period;
        std::uint32_t* __restrict next = begin;
        for (std::uint32_t i = 0; i < period; ++i)
            next[i] = last[i] + (last[i] - before[i]);
    };
    for (; times > 0; --times, size_ += period) {
        copy_shifted(pred0_.data() + size_, period, period);
        copy_shifted(pred1_.data() + size_, period, period);
        copy_shifted(slot_.data() + size_, period, 0);
        continue_line(host0_.data() + size_);
        continue_line(host1_.data() + size_);
    }
}

template <class FinalIndex>
void Nodes::move_to(CompiledSchedule& out, const FinalIndex& final_index) const {
    const auto copy = [&](const std::vector<std::uint32_t>& from, std::vector<std::uint32_t>& to,
                          std::uint32_t shift) {
        to.assign(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(size_));
        if (shift == 0) return;
        for (std::uint32_t& node : to)
            node += shift;
    };
    copy(pred0_, out.pred0, out.lane_count);
    copy(pred1_, out.pred1, out.lane_count);
    for (const std::uint32_t node : carried_) {
        out.pred0[node] = final_index(pred0_[node]);
        out.pred1[node] = final_index(pred1_[node]);
    }
    copy(slot_, out.slot, 0);
    copy(host0_, out.host0, 0);
    copy(host1_, out.host1, 0);
}

}  // namespace tw::in_order
