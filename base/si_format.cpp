#include "base/si_format.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include <fmt/format.h>

namespace tw {
namespace {

struct UnitStep {
    std::string_view name;
    double factor;
};

// Largest first. Every table ends with the unit that small values fall into.
constexpr std::array kDurations = {
    UnitStep{"d", 86400.0}, UnitStep{"h", 3600.0}, UnitStep{"min", 60.0}, UnitStep{"s", 1.0},
    UnitStep{"ms", 1e-3},   UnitStep{"µs", 1e-6},  UnitStep{"ns", 1e-9},  UnitStep{"ps", 1e-12},
};
constexpr std::array kDecimalBytes = {
    UnitStep{"PB", 1e15}, UnitStep{"TB", 1e12}, UnitStep{"GB", 1e9},
    UnitStep{"MB", 1e6},  UnitStep{"kB", 1e3},  UnitStep{"B", 1.0},
};
constexpr std::array kBinaryBytes = {
    UnitStep{"PiB", 0x1p50}, UnitStep{"TiB", 0x1p40}, UnitStep{"GiB", 0x1p30},
    UnitStep{"MiB", 0x1p20}, UnitStep{"KiB", 0x1p10}, UnitStep{"B", 1.0},
};
constexpr std::array kPrefixes = {
    UnitStep{"E", 1e18}, UnitStep{"P", 1e15}, UnitStep{"T", 1e12}, UnitStep{"G", 1e9},
    UnitStep{"M", 1e6},  UnitStep{"k", 1e3},  UnitStep{"", 1.0},
};
constexpr std::array kShortCounts = {
    UnitStep{"T", 1e12}, UnitStep{"B", 1e9}, UnitStep{"M", 1e6}, UnitStep{"k", 1e3}, UnitStep{"", 1.0},
};

// To `digits` significant digits, but never coarser than one: 1023 KiB keeps its four.
double round_significant(double value, int digits) {
    if (value >= 1) digits = std::max(digits, static_cast<int>(std::floor(std::log10(value))) + 1);
    const std::string text = fmt::format("{:.{}e}", value, digits - 1);
    double rounded = 0;
    std::from_chars(text.data(), text.data() + text.size(), rounded);
    return rounded;
}

// `value` is at least zero and already rounded to `digits` significant digits.
std::string significant(double value, int digits) {
    if (value == 0) return "0";
    const int magnitude = static_cast<int>(std::floor(std::log10(value) + 1e-12));
    const int decimals = std::max(0, digits - 1 - magnitude);
    return fmt::format("{:.{}f}", value, std::min(decimals, 20));
}

struct Scaled {
    std::string number;
    std::string_view unit;
};

Scaled scale(double value, std::span<const UnitStep> units, int digits) {
    const std::string sign = std::signbit(value) && value != 0 ? "-" : "";
    const double magnitude = std::abs(value);
    for (const UnitStep& unit : units) {
        const double rounded = round_significant(magnitude / unit.factor, digits);
        if (rounded >= 1.0 || &unit == &units.back()) return {sign + significant(rounded, digits), unit.name};
    }
    return {};
}

std::string not_finite(double value) {
    if (std::isnan(value)) return "n/a";
    return value > 0 ? "inf" : "-inf";
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && text.front() == ' ')
        text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ')
        text.remove_suffix(1);
    return text;
}

Result<double> parse_quantity(std::string_view text, std::span<const std::span<const UnitStep>> tables,
                              std::string_view what, std::string_view known) {
    const auto refuse = [&](std::string message) {
        return Error{ErrorCode::Usage, std::move(message), std::string(text),
                     fmt::format("known units: {}", known)};
    };
    std::string_view rest = trimmed(text);
    if (!rest.empty() && rest.front() == '+') rest.remove_prefix(1);
    double value = 0;
    const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (code != std::errc{} || !std::isfinite(value)) return refuse(fmt::format("not a {}", what));
    const std::string_view unit = trimmed(rest.substr(static_cast<std::size_t>(end - rest.data())));
    if (unit.empty()) return value;
    for (const auto table : tables) {
        for (const UnitStep& step : table) {
            if (step.name == unit) return value * step.factor;
        }
    }
    return refuse(fmt::format("unknown unit '{}' of a {}", unit, what));
}

}  // namespace

std::string format_duration(double seconds, int digits) {
    if (!std::isfinite(seconds)) return not_finite(seconds);
    if (seconds == 0) return "0 s";
    // A step of 105 s is compared with one of 98 s: minutes only from ten on.
    const bool below_ten_minutes = round_significant(std::abs(seconds), digits) < 600;
    const Scaled s = scale(
        seconds, below_ten_minutes ? std::span(kDurations).subspan(3) : std::span<const UnitStep>(kDurations),
        digits);
    return fmt::format("{} {}", s.number, s.unit);
}

std::string format_sim_time(SimTime time, int digits) {
    return format_duration(to_seconds(time).value, digits);
}

std::string format_bytes(double bytes, ByteUnit unit, int digits) {
    if (!std::isfinite(bytes)) return not_finite(bytes);
    const std::span<const UnitStep> table = unit == ByteUnit::Binary
                                                ? std::span<const UnitStep>(kBinaryBytes)
                                                : std::span<const UnitStep>(kDecimalBytes);
    if (std::abs(bytes) < 1000 && bytes == std::floor(bytes)) return fmt::format("{:.0f} B", bytes);
    const Scaled s = scale(bytes, table, digits);
    return fmt::format("{} {}", s.number, s.unit);
}

std::string format_count(std::int64_t count) {
    const std::string digits = std::to_string(count);
    const std::size_t first = count < 0 ? 1 : 0;
    std::string out;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i > first && (digits.size() - i) % 3 == 0) out += ',';
        out += digits[i];
    }
    return out;
}

std::string format_short_count(double count, int digits) {
    if (!std::isfinite(count)) return not_finite(count);
    if (std::abs(count) < 1000 && count == std::floor(count)) return fmt::format("{:.0f}", count);
    const Scaled s = scale(count, kShortCounts, digits);
    return fmt::format("{}{}", s.number, s.unit);
}

std::string format_rate(double per_second, std::string_view unit, int digits) {
    if (!std::isfinite(per_second)) return not_finite(per_second);
    if (unit == "B/s" || unit == "FLOP/s" || unit == "bit/s" || unit == "FLOP" || unit == "W" ||
        unit == "J" || unit == "Wh") {
        const Scaled s = scale(per_second, kPrefixes, digits);
        return fmt::format("{} {}{}", s.number, s.unit, unit);
    }
    return fmt::format("{} {}", format_short_count(per_second, digits), unit);
}

std::string format_percent(double share, int decimals) {
    if (!std::isfinite(share)) return not_finite(share);
    std::string text = fmt::format("{:.{}f}", share * 100.0, decimals);
    if (text.front() == '-' && text.find_first_not_of("-0.") == std::string::npos) text.erase(0, 1);
    return text + " %";
}

std::string format_exact(double value) {
    return fmt::format("{}", value);
}

Result<double> parse_duration(std::string_view text) {
    static constexpr std::array kAscii = {UnitStep{"us", 1e-6}};
    const std::array<std::span<const UnitStep>, 2> tables = {kDurations, kAscii};
    return parse_quantity(text, tables, "duration", "ps ns us ms s min h d");
}

Result<double> parse_bytes(std::string_view text) {
    const std::array<std::span<const UnitStep>, 2> tables = {kDecimalBytes, kBinaryBytes};
    return parse_quantity(text, tables, "size",
                          "B, kB MB GB TB PB (powers of 1000), KiB MiB GiB TiB PiB (of 1024)");
}

}  // namespace tw
