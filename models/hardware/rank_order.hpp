// The axes of a mesh, their degrees, and the order in which ranks run over them.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "models/graph/op.hpp"

namespace tw {

class AxisSet {
  public:
    constexpr AxisSet(std::initializer_list<Axis> axes) {  // NOLINT(google-explicit-constructor)
        for (const Axis axis : axes)
            bits_ = static_cast<std::uint8_t>(bits_ | bit(axis));
    }
    [[nodiscard]] constexpr bool has(Axis axis) const { return (bits_ & bit(axis)) != 0; }
    [[nodiscard]] constexpr bool is_expert() const {
        return has(Axis::Ep) || has(Axis::Etp) || has(Axis::Edp);
    }
    [[nodiscard]] constexpr bool is_dense() const { return has(Axis::Tp) || has(Axis::Cp) || has(Axis::Dp); }

  private:
    static constexpr unsigned bit(Axis axis) { return 1U << static_cast<unsigned>(axis); }
    std::uint8_t bits_ = 0;
};

struct MeshDegrees {
    int tp = 1, cp = 1, dp = 1, pp = 1;
    int ep = 1, etp = 1;
    [[nodiscard]] std::int64_t world() const { return std::int64_t{tp} * cp * dp * pp; }
    [[nodiscard]] std::int64_t edp() const { return std::int64_t{tp} * cp * dp / (std::int64_t{ep} * etp); }
    [[nodiscard]] int degree(Axis axis) const;
};

// A permutation of Tp, Cp, Ep, Dp, Pp, innermost first.
struct RankOrder {
    std::array<Axis, 5> axes = {Axis::Tp, Axis::Cp, Axis::Ep, Axis::Dp, Axis::Pp};
    friend bool operator==(const RankOrder&, const RankOrder&) = default;
};

// "tp-cp-ep-dp-pp": names joined by '-', each at most once; tp, dp and pp are required, a missing cp stands
// after tp and a missing ep before dp. Usage error with the offending name otherwise.
Result<RankOrder> parse_rank_order(std::string_view text);
std::string to_string(const RankOrder& order);

}  // namespace tw
