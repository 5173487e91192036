// A checked longjmp refuses to leave a stack for another one.
#undef _FORTIFY_SOURCE
#include "real_exec/backend/cuda/shim/fibres.hpp"

#include <bit>
#include <csetjmp>
#include <cstring>
#include <memory>
#include <vector>

#include <ucontext.h>

#include "base/check.hpp"

namespace tw::cuda::shim {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;

struct Barrier {
    unsigned expected = 0, arrived = 0;
    std::uint64_t generation = 0;
};

struct Warp {
    Barrier barrier;
    alignas(64) unsigned char slots[2][32 * 64];
};

struct Fibre {
    std::jmp_buf state;
    ucontext_t first;
    std::unique_ptr<unsigned char[]> stack;
    bool begun = false, done = true;
    unsigned exchanges = 0;
};

// One a thread of the host; fibres live as long as it, so a block of known size costs no set-up.
struct Machine {
    std::vector<std::unique_ptr<Fibre>> fibres;
    std::vector<Warp> warps;
    Barrier block;
    std::jmp_buf scheduler;
    ucontext_t home;
    std::vector<unsigned char> shared;
    const std::function<void()>* body = nullptr;
    Index thread, block_at, block_size, grid;
    std::uint64_t moves = 0;  // barriers released and fibres ended
    unsigned running = 0;
};

thread_local Machine machine;

void yield() {
    Fibre& self = *machine.fibres[machine.running];
    if (_setjmp(self.state) == 0) _longjmp(machine.scheduler, 1);
}

void arrive(Barrier& barrier) {
    const std::uint64_t generation = barrier.generation;
    if (++barrier.arrived == barrier.expected) {
        barrier.arrived = 0;
        ++barrier.generation;
        ++machine.moves;
        return;
    }
    while (barrier.generation == generation)
        yield();
}

// A fibre that ended counts as arrived for good, as on a device.
void leave(Barrier& barrier) {
    --barrier.expected;
    if (barrier.expected > 0 && barrier.arrived == barrier.expected) {
        barrier.arrived = 0;
        ++barrier.generation;
    }
}

void fibre_main() {
    while (true) {
        (*machine.body)();
        leave(machine.warps[machine.running / 32].barrier);
        leave(machine.block);
        machine.fibres[machine.running]->done = true;
        ++machine.moves;
        yield();
    }
}

void resume(unsigned index) {
    Fibre& fibre = *machine.fibres[index];
    machine.running = index;
    machine.thread.x = index;
    if (_setjmp(machine.scheduler) != 0) return;
    if (fibre.begun) _longjmp(fibre.state, 1);
    fibre.begun = true;
    getcontext(&fibre.first);
    fibre.first.uc_stack.ss_sp = fibre.stack.get();
    fibre.first.uc_stack.ss_size = kStackBytes;
    fibre.first.uc_link = nullptr;
    makecontext(&fibre.first, fibre_main, 0);
    setcontext(&fibre.first);
}

void run_block(unsigned threads) {
    machine.block = {threads, 0, 0};
    machine.warps.resize((threads + 31) / 32);
    for (unsigned w = 0; w < machine.warps.size(); ++w)
        machine.warps[w].barrier = {threads - 32 * w < 32 ? threads - 32 * w : 32, 0, 0};
    for (unsigned i = 0; i < threads; ++i) {
        machine.fibres[i]->done = false;
        machine.fibres[i]->exchanges = 0;
    }
    for (bool open = true; open;) {
        open = false;
        const std::uint64_t before = machine.moves;
        for (unsigned i = 0; i < threads; ++i) {
            if (machine.fibres[i]->done) continue;
            resume(i);
            open |= !machine.fibres[i]->done;
        }
        TW_CHECK_MSG(!open || machine.moves != before, "threads of a block wait at different barriers");
    }
}

}  // namespace

void run_grid(Index grid, unsigned threads, std::size_t shared_bytes, const std::function<void()>& body) {
    TW_CHECK(threads >= 1 && threads <= 1024 && grid.y <= 65535 && grid.z <= 65535);
    TW_CHECK_MSG(shared_bytes <= 227 * 1024, "more shared memory than a block of sm_90 has");
    while (machine.fibres.size() < threads) {
        auto fibre = std::make_unique<Fibre>();
        fibre->stack = std::make_unique_for_overwrite<unsigned char[]>(kStackBytes);
        machine.fibres.push_back(std::move(fibre));
    }
    machine.shared.assign(shared_bytes + 128, 0xcd);  // contents undefined: what is read unwritten is noticed
    machine.body = &body;
    machine.block_size = {threads, 1, 1};
    machine.grid = grid;
    for (machine.block_at.z = 0; machine.block_at.z < grid.z; ++machine.block_at.z) {
        for (machine.block_at.y = 0; machine.block_at.y < grid.y; ++machine.block_at.y) {
            for (machine.block_at.x = 0; machine.block_at.x < grid.x; ++machine.block_at.x)
                run_block(threads);
        }
    }
}

const Index& thread_index() {
    return machine.thread;
}
const Index& block_index() {
    return machine.block_at;
}
const Index& block_size() {
    return machine.block_size;
}
const Index& grid_size() {
    return machine.grid;
}
unsigned char* dynamic_shared() {
    const auto at = reinterpret_cast<std::uintptr_t>(machine.shared.data());
    return machine.shared.data() + (128 - at % 128) % 128;
}

void block_barrier() {
    arrive(machine.block);
}

void warp_barrier() {
    arrive(machine.warps[machine.running / 32].barrier);
}

const unsigned char* warp_exchange(const void* own, std::size_t size) {
    const unsigned self = machine.running;
    Warp& warp = machine.warps[self / 32];
    // Two tables in turn: nobody can be two exchanges ahead of a lane that still reads.
    unsigned char* table = warp.slots[machine.fibres[self]->exchanges++ % 2];
    std::memcpy(table + 64 * static_cast<std::size_t>(self % 32), own, size);
    warp_barrier();
    return table;
}

float bf16_to_float(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}
std::uint16_t float_to_bf16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}
float f16_to_float(std::uint16_t bits) {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16U;
    const std::uint32_t exponent = (bits >> 10U) & 31U, fraction = bits & 0x3ffU;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | fraction << 13U);
    if (exponent == 0) {
        const float magnitude = static_cast<float>(fraction) * 0x1.0p-24F;
        return sign != 0 ? -magnitude : magnitude;
    }
    return std::bit_cast<float>(sign | (exponent + 112) << 23U | fraction << 13U);
}
std::uint16_t float_to_f16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16U) & 0x8000U;
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
    if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
    if (magnitude < 0x38800000U) {
        // Subnormal: the sum's own rounding leaves the fraction in the low bits.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
        return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
    }
    const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13U) & 1U);
    return static_cast<std::uint16_t>(sign | ((rounded >> 13U) - (112U << 10U)));
}

}  // namespace tw::cuda::shim
