#include "models/hardware/driver_name.hpp"

#include <cctype>
#include <cmath>

#include "models/hardware/cluster_json.hpp"

namespace tw {
namespace {

std::string plain(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0)
            result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return result;
}

// The number before "GB" in the name; 0: none.
double gigabytes_in(std::string_view name) {
    const auto at = name.find("GB");
    if (at == std::string_view::npos) return 0;
    std::size_t end = at;
    while (end > 0 && name[end - 1] == ' ')
        --end;
    std::size_t begin = end;
    while (begin > 0 && std::isdigit(static_cast<unsigned char>(name[begin - 1])) != 0)
        --begin;
    double value = 0;
    for (std::size_t i = begin; i < end && i < begin + 4; ++i)
        value = 10 * value + (name[i] - '0');
    return value;
}

// "h100" of "h100-pcie" stands in the name as a word of its own: not the h200 of a GH200, nor the a10 of an
// A100.
bool names_model(const std::string& text, const std::string& model) {
    for (auto at = text.find(model); at != std::string::npos; at = text.find(model, at + 1)) {
        const std::size_t end = at + model.size();
        const bool digit_follows =
            end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0;
        const bool ends_in_digit = std::isdigit(static_cast<unsigned char>(model.back())) != 0;
        // "gh200120gb": a size in GB may follow directly.
        if (!digit_follows || !ends_in_digit || text.find("gb", end) != std::string::npos) return true;
    }
    return false;
}

}  // namespace

std::optional<Device> device_of_driver_name(std::string_view name, std::int64_t memory_bytes) {
    const std::string text = plain(name);
    const bool pcie = text.find("pcie") != std::string::npos;
    const double said = memory_bytes > 0 ? static_cast<double>(memory_bytes) / 1e9 : gigabytes_in(name);
    const Device* best = nullptr;
    std::size_t longest = 0;
    double closest = 0;
    for (const Device& device : shipped_devices()) {
        const std::string model = plain(device.name.substr(0, device.name.find('-')));
        if (device.architecture == "cpu" || model.size() < longest || !names_model(text, model)) continue;
        if ((device.name.find("pcie") != std::string::npos) != pcie && model.size() == longest &&
            best != nullptr)
            continue;
        // The kinds of one model: nearest memory, then the form factor that the name states.
        const double memory = as_double(device.memory) / 1e9;
        double off = said > 0 ? std::fabs(std::log(memory / said)) : 0;
        if ((device.name.find("pcie") != std::string::npos) != pcie) off += 10;
        if (said == 0 && device.name.find('-') != std::string::npos) off += 0.1;
        if (model.size() == longest && best != nullptr && off >= closest) continue;
        best = &device;
        longest = model.size();
        closest = off;
    }
    if (best == nullptr) return std::nullopt;
    return *best;
}

}  // namespace tw
