// Strong types for the quantities of this field. Only meaningful operators exist: Bytes / BytesPerSecond ->
// Seconds. _GB (1e9) and _GiB (2^30) are different literals. AlgBandwidth and BusBandwidth are different
// types: nccl-tests' doc/PERFORMANCE.md; documents store bus bandwidth. Simulated time is SimTime
// (base/sim_time.hpp).
#pragma once

#include <compare>
#include <cstdint>

namespace tw {

template <class Tag, class Rep>
struct Quantity {
    using rep = Rep;
    Rep value{};

    constexpr Quantity() = default;
    constexpr explicit Quantity(Rep v) : value(v) {}

    friend constexpr auto operator<=>(Quantity, Quantity) = default;
    friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value + b.value); }
    friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value - b.value); }
    friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(a.value * k); }
    friend constexpr Quantity operator*(Rep k, Quantity a) { return Quantity(a.value * k); }
    friend constexpr Quantity operator/(Quantity a, Rep k) { return Quantity(a.value / k); }
    constexpr Quantity& operator+=(Quantity b) { return value += b.value, *this; }
    constexpr Quantity& operator-=(Quantity b) { return value -= b.value, *this; }
};

using Seconds = Quantity<struct SecondsTag, double>;
using Bytes = Quantity<struct BytesTag, std::int64_t>;
using FlopCount = Quantity<struct FlopCountTag, double>;  // floating-point operations
using FlopRate = Quantity<struct FlopRateTag, double>;    // FLOP per second
using BytesPerSecond =
    Quantity<struct BytesPerSecondTag, double>;                 // a link's or a memory's rate, one direction
using AlgBandwidth = Quantity<struct AlgBandwidthTag, double>;  // bytes per second, size / time
using BusBandwidth =
    Quantity<struct BusBandwidthTag, double>;  // bytes per second, comparable to the hardware peak

constexpr Seconds operator/(Bytes b, BytesPerSecond r) {
    return Seconds(static_cast<double>(b.value) / r.value);
}
constexpr Seconds operator/(FlopCount f, FlopRate r) {
    return Seconds(f.value / r.value);
}
constexpr BytesPerSecond operator/(Bytes b, Seconds t) {
    return BytesPerSecond(static_cast<double>(b.value) / t.value);
}
constexpr FlopRate operator/(FlopCount f, Seconds t) {
    return FlopRate(f.value / t.value);
}
constexpr double operator/(Seconds a, Seconds b) {
    return a.value / b.value;
}
constexpr double ratio(Bytes a, Bytes b) {
    return static_cast<double>(a.value) / static_cast<double>(b.value);
}
constexpr double as_double(Bytes b) {
    return static_cast<double>(b.value);
}

namespace literals {
constexpr Seconds operator""_s(long double v) {
    return Seconds(static_cast<double>(v));
}
constexpr Seconds operator""_ms(long double v) {
    return Seconds(static_cast<double>(v) * 1e-3);
}
constexpr Seconds operator""_us(long double v) {
    return Seconds(static_cast<double>(v) * 1e-6);
}
constexpr Bytes operator""_B(unsigned long long v) {
    return Bytes(static_cast<std::int64_t>(v));
}
constexpr Bytes operator""_KiB(unsigned long long v) {
    return Bytes(static_cast<std::int64_t>(v) << 10);
}
constexpr Bytes operator""_MiB(unsigned long long v) {
    return Bytes(static_cast<std::int64_t>(v) << 20);
}
constexpr Bytes operator""_GiB(unsigned long long v) {
    return Bytes(static_cast<std::int64_t>(v) << 30);
}
constexpr Bytes operator""_MB(unsigned long long v) {
    return Bytes(static_cast<std::int64_t>(v) * 1'000'000);
}
constexpr Bytes operator""_GB(unsigned long long v) {
    return Bytes(static_cast<std::int64_t>(v) * 1'000'000'000);
}
constexpr FlopRate operator""_TFLOPs(long double v) {
    return FlopRate(static_cast<double>(v) * 1e12);
}
constexpr BytesPerSecond operator""_GBps(long double v) {
    return BytesPerSecond(static_cast<double>(v) * 1e9);
}
}  // namespace literals

}  // namespace tw
