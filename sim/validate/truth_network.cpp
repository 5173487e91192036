#include "sim/validate/truth_network.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "sim/validate/row_words.hpp"

namespace tw {
namespace {

constexpr double kBit = 1.0 / 8;

// What follows a number that is a rate; bytes a second of one. Case tells bits from bytes where a unit is one
// letter.
struct Unit {
    std::string_view text;
    double bytes;
};
constexpr std::array<Unit, 24> kUnits = {{
    {"Gbit/s", 1e9 * kBit}, {"Gbits/s", 1e9 * kBit}, {"gbit/s", 1e9 * kBit},  {"Gbit", 1e9 * kBit},
    {"Gb/s", 1e9 * kBit},   {"gb/s", 1e9 * kBit},    {"Gbps", 1e9 * kBit},    {"gbps", 1e9 * kBit},
    {"GBit/s", 1e9 * kBit}, {"GB/s", 1e9},           {"GBps", 1e9},           {"GiB/s", 1073741824.0},
    {"Tb/s", 1e12 * kBit},  {"Tbps", 1e12 * kBit},   {"Tbit/s", 1e12 * kBit}, {"tbps", 1e12 * kBit},
    {"tb/s", 1e12 * kBit},  {"TB/s", 1e12},          {"GbE", 1e9 * kBit},     {"Gbe", 1e9 * kBit},
    {"gbe", 1e9 * kBit},    {"GE", 1e9 * kBit},      {"Gb", 1e9 * kBit},      {"G", 1e9 * kBit},
}};

// Generations of InfiniBand, in bytes a second of a link of four lanes.
constexpr std::array<Unit, 5> kGenerations = {{
    {"fdr", 56e9 * kBit},
    {"edr", 100e9 * kBit},
    {"hdr", 200e9 * kBit},
    {"ndr", 400e9 * kBit},
    {"xdr", 800e9 * kBit},
}};

bool digit(char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

bool letter(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0;
}

struct Rate {
    double bytes = 0;
    std::size_t begin = 0, end = 0;  // in the text
};

const Unit* unit_at(std::string_view text) {
    for (const Unit& unit : kUnits) {
        if (!begins(text, unit.text)) continue;
        if (text.size() == unit.text.size() || !letter(text[unit.text.size()])) return &unit;
    }
    return nullptr;
}

// The first number with a unit.
std::optional<Rate> first_rate(const std::string& text) {
    for (std::size_t i = 0; i < text.size();) {
        if (!digit(text[i])) {
            ++i;
            continue;
        }
        std::size_t end = i;
        while (end < text.size() && (digit(text[end]) || text[end] == '.'))
            ++end;
        std::size_t unit = end;
        while (unit < text.size() && (text[unit] == ' ' || text[unit] == '-'))
            ++unit;
        if (const Unit* found = unit_at(std::string_view(text).substr(unit))) {
            const double value = std::strtod(text.substr(i, end - i).c_str(), nullptr);
            if (std::isfinite(value)) return Rate{value * found->bytes, i, unit + found->text.size()};
        }
        i = end;
    }
    return std::nullopt;
}

// "HDR200", "NDR", "8x HDR InfiniBand".
std::optional<Rate> rate_of_generation(const std::string& low) {
    for (const Unit& generation : kGenerations) {
        const auto at = low.find(generation.text);
        if (at == std::string::npos || (at > 0 && letter(low[at - 1]))) continue;
        const std::size_t end = at + generation.text.size();
        if (end < low.size() && letter(low[end])) continue;
        const std::string tail = low.substr(end, 3);
        const bool stated = tail == "100" || tail == "200" || tail == "400" || tail == "800";
        return Rate{stated ? std::strtod(tail.c_str(), nullptr) * 1e9 * kBit : generation.bytes, at, end};
    }
    return std::nullopt;
}

// "8x", "4 x" and "16 links": how many links the text counts; 0 where it counts none.
int links_of(const std::string& low, const Rate& rate) {
    for (const std::string_view word : {"link", "nic", "port", "adapter", "hca", "rail", "card"}) {
        if (const auto links = number_before(low, word)) return *links;
    }
    if (const auto times = number_before(low.substr(0, rate.begin), "x")) return *times;
    const std::string after = low.substr(std::min(low.size(), rate.end));
    return begins(after, " x") || begins(after, "x") ? number_after(after, "x").value_or(0) : 0;
}

bool denied(const std::string& low) {
    return low == "none" || low == "no" || low == "0" || low == "single node" || low == "no network" ||
           low == "false";
}

}  // namespace

StatedNetwork stated_network(const std::string& text, const NodeType& node) {
    StatedNetwork result;
    const std::string low = lower(text);
    if (low.empty()) return result;
    result.none = denied(low);
    auto rate = first_rate(text);
    const bool by_name = !rate;
    if (!rate) rate = rate_of_generation(low);
    if (result.none || !rate) {
        if (!result.none) result.taken = "the network of " + node.name;
        return result;
    }
    if (rate->bytes <= 0) {
        result.none = true;
        return result;
    }
    const int links = links_of(low, *rate);
    if (says_any(low, {"per gpu", "/gpu", "per device", "per rank", "each gpu", "per accelerator"})) {
        result.node_bytes_per_s = rate->bytes * node.devices;
    } else if (links > 0) {
        result.node_bytes_per_s = rate->bytes * links;
    } else if (says_any(low, {"per node", "/node", "per server", "per host", "aggregate", "total"})) {
        result.node_bytes_per_s = rate->bytes;
    } else {
        const bool of_link = by_name || std::abs(rate->bytes / node.nic_bandwidth.value - 1) < 0.05;
        result.node_bytes_per_s = rate->bytes * (of_link ? node.nics : 1);
        result.taken = fmt::format("{:g} Gb/s of a node", result.node_bytes_per_s * 8 / 1e9);
    }
    return result;
}

}  // namespace tw
