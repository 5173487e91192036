// Parts of a transformer block that a recomputation may choose, named as Megatron-Core names them
// (Megatron-LM core/transformer/transformer_config.py, recompute_modules). "core_attn", "mlp", "moe" and
// "shared_experts" are checkpoints: their input is kept and everything inside runs again. "moe_act",
// "layernorm" and "mla_up_proj" discard their outputs alone
// (core/tensor_parallel/random.py, CheckpointWithoutOutput): the tensors are made again from inputs that are
// kept anyway. A module's operations all run again, exchanges between ranks included.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace tw {

enum class RecomputeModule : std::uint8_t {
    CoreAttention,       // "core_attn"
    ExpertActivation,    // "moe_act": the activation's output inside the experts
    Norm,                // "layernorm": the outputs of norms that are modules of their own
    LatentUpProjection,  // "mla_up_proj": queries, keys and values of latent attention
    Mlp,                 // "mlp": of blocks without experts
    Experts,             // "moe": router, exchanges, experts and shared experts
    SharedExperts        // "shared_experts"
};
inline constexpr std::array kRecomputeModules = {
    RecomputeModule::CoreAttention, RecomputeModule::ExpertActivation,
    RecomputeModule::Norm,          RecomputeModule::LatentUpProjection,
    RecomputeModule::Mlp,           RecomputeModule::Experts,
    RecomputeModule::SharedExperts};

// A set of them.
class RecomputeModules {
  public:
    constexpr RecomputeModules() = default;
    constexpr RecomputeModules(std::initializer_list<RecomputeModule> modules) {
        for (const RecomputeModule module : modules)
            add(module);
    }

    constexpr void add(RecomputeModule module) { bits_ = static_cast<std::uint8_t>(bits_ | bit(module)); }
    constexpr void add(RecomputeModules others) { bits_ = static_cast<std::uint8_t>(bits_ | others.bits_); }
    constexpr void remove(RecomputeModule module) { bits_ = static_cast<std::uint8_t>(bits_ & ~bit(module)); }
    [[nodiscard]] constexpr bool has(RecomputeModule module) const { return (bits_ & bit(module)) != 0; }
    [[nodiscard]] constexpr bool any() const { return bits_ != 0; }
    [[nodiscard]] constexpr bool any_of(RecomputeModules others) const { return (bits_ & others.bits_) != 0; }
    [[nodiscard]] constexpr std::uint8_t bits() const { return bits_; }  // equal sets have equal ones
    friend bool operator==(const RecomputeModules&, const RecomputeModules&) = default;

  private:
    static constexpr std::uint8_t bit(RecomputeModule module) {
        return static_cast<std::uint8_t>(1U << static_cast<unsigned>(module));
    }
    std::uint8_t bits_ = 0;
};

std::string_view to_string(RecomputeModule module);  // "core_attn", "moe_act", ...
std::vector<std::string> names_of(RecomputeModules modules);
std::string to_string(RecomputeModules modules);  // "layernorm+mla_up_proj"
// An unknown name is an error with the nearest one; its context is empty.
Result<RecomputeModule> recompute_module_named(std::string_view name);
// Names with `separator` between them; at least one.
Result<RecomputeModules> recompute_modules_named(std::string_view names, char separator = '+');

}  // namespace tw
