// What a Backend was asked to do and how long each call took: kernels timed where they run, with the caches
// as their callers left them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "real_exec/backend/backend.hpp"

namespace tw {

// A kernel and its sizes: gemm {m, n, k, layout, accumulates}, attention {batch, seq, heads, kv_heads,
// head_dim, causal, window}, others {rows, width}.
struct KernelCall {
    std::string_view kernel;  // "gemm", "attention", "attention_backward", or an executor kernel's name
    DType dtype = DType::F32;
    std::array<std::int64_t, 7> size{};
    friend auto operator<=>(const KernelCall&, const KernelCall&) = default;  // NOLINT(modernize-use-nullptr)
};
// Layouts of a product: neither operand, the second, or the first transposed.
enum class Layout : std::int64_t { Nn, Nt, Tn, Tt };

class KernelLog {
  public:
    void add(const KernelCall& call, double seconds) {
        if (on_) open_.emplace_back(call, seconds);
    }
    void switch_on(bool on) { on_ = on; }
    // What was added since the last time counts, times a factor, here or in another log.
    void keep() { keep_in(*this, 1); }
    void keep_in(KernelLog& log, double factor) {
        for (const auto& [call, seconds] : open_) {
            log.calls_[call].push_back(factor * seconds);
            ++log.count_;
            log.total_s_ += factor * seconds;
        }
        open_.clear();
    }
    void clear() {
        open_.clear();
        calls_.clear();
        count_ = 0;
        total_s_ = 0;
    }
    // Of what counts.
    [[nodiscard]] const std::map<KernelCall, std::vector<double>>& calls() const { return calls_; }
    [[nodiscard]] std::int64_t count() const { return count_; }
    [[nodiscard]] double total_s() const { return total_s_; }

  private:
    std::vector<std::pair<KernelCall, double>> open_;
    std::map<KernelCall, std::vector<double>> calls_;
    std::int64_t count_ = 0;
    double total_s_ = 0;
    bool on_ = true;
};

using Clock = std::function<double()>;  // seconds; any origin

// `inner` with each kernel timed into `log`, to the end of its work on the device. Memory is the inner
// backend's. All outlive the result.
std::unique_ptr<Backend> make_timing_backend(Backend& inner, KernelLog& log, const Clock& clock);

}  // namespace tw
