#include "plan/trace/rendezvous.hpp"

#include <algorithm>
#include <array>
#include <tuple>

namespace tw {
namespace {

struct Entry {
    // What both ends agree on; the last number is how often the same key came before on this rank.
    std::array<std::int64_t, 9> key{};
    EventRef ref;
};

std::array<std::int64_t, 9> key_of(const RankTrace& rank, const Instruction& i) {
    const auto opcode = static_cast<std::int64_t>(i.opcode);
    if (is_transfer(i.opcode)) {
        const bool activation = i.opcode == Opcode::SendActivation || i.opcode == Opcode::RecvActivation;
        // The boundary between stages b and b + 1 that the tensor crosses.
        const std::int64_t boundary =
            activation ? i.stage - (is_send(i.opcode) ? 0 : 1) : i.stage - (is_send(i.opcode) ? 1 : 0);
        const std::int64_t own = rank.schedule_rank(), peer = i.peer;
        return {0,
                activation ? 1 : 0,
                boundary,
                i.microbatch,
                is_send(i.opcode) ? own : peer,
                is_send(i.opcode) ? peer : own,
                rank.replica,
                i.part,
                0};
    }
    const std::int64_t scope = i.group == 0 ? rank.schedule_rank() : rank.replica;
    // A collective over pipeline ranks has one stage number a rank (tied embeddings), so the stage is no part
    // of its key.
    const std::int64_t stage = i.group == 0 ? i.stage : 0;
    return {1, opcode, stage, i.microbatch, i.part, i.group, scope, 0, 0};
}

}  // namespace

Rendezvous match_rendezvous(const Trace& trace) {
    std::vector<Entry> entries;
    for (std::uint32_t r = 0; r < trace.ranks.size(); ++r) {
        const RankTrace& rank = trace.ranks[r];
        const std::size_t first = entries.size();
        for (std::uint32_t e = 0; e < rank.events.size(); ++e) {
            if (rank.events[e].inside_another()) continue;
            const Instruction& i = rank.events[e].instruction;
            if (is_transfer(i.opcode) || is_collective(i.opcode))
                entries.push_back({key_of(rank, i), {r, e}});
        }
        // Number the repetitions of each key on this rank, in program order.
        std::sort(entries.begin() + static_cast<std::ptrdiff_t>(first), entries.end(),
                  [](const Entry& a, const Entry& b) {
                      return std::tie(a.key, a.ref.event) < std::tie(b.key, b.ref.event);
                  });
        std::int64_t repetition = 0;
        for (std::size_t k = first; k < entries.size(); ++k) {
            const bool same = k > first && std::equal(entries[k].key.begin(), entries[k].key.end() - 1,
                                                      entries[k - 1].key.begin());
            repetition = same ? repetition + 1 : 0;
            entries[k].key.back() = repetition;
        }
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
        return std::tie(a.key, a.ref.rank, a.ref.event) < std::tie(b.key, b.ref.rank, b.ref.event);
    });

    Rendezvous out;
    for (const RankTrace& rank : trace.ranks)
        out.meeting_of.emplace_back(rank.events.size(), Rendezvous::kNone);
    for (std::size_t k = 0; k < entries.size();) {
        std::size_t last = k;
        while (last < entries.size() && entries[last].key == entries[k].key)
            ++last;
        if (last - k >= 2) {
            const auto meeting = static_cast<std::uint32_t>(out.size());
            for (std::size_t j = k; j < last; ++j) {
                out.members.push_back(entries[j].ref);
                out.meeting_of[entries[j].ref.rank][entries[j].ref.event] = meeting;
            }
            out.begin.push_back(static_cast<std::uint32_t>(out.members.size()));
        }
        k = last;
    }
    return out;
}

}  // namespace tw
