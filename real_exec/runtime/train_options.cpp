#include "real_exec/runtime/train_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>

namespace tw {

double LearningRate::at(std::int64_t step, std::int64_t steps, std::int64_t global_batch) const {
    const double scale =
        scale_from_batch > 0 ? static_cast<double>(global_batch) / static_cast<double>(scale_from_batch) : 1;
    const double top = peak * scale;
    if (step < warmup_steps) return top * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
    if (decay == Decay::Constant) return top;
    const double length = static_cast<double>(std::max<std::int64_t>(1, steps - warmup_steps));
    const double done = std::min(1.0, static_cast<double>(step - warmup_steps) / length);
    return top * (final_share + (1 - final_share) * 0.5 * (1 + std::cos(std::numbers::pi * done)));
}

namespace {

struct KindName {
    std::string_view name;
    Fault::Kind kind;
};
constexpr std::array kKinds = {
    KindName{"slow", Fault::Kind::Slow},       KindName{"kill", Fault::Kind::Kill},
    KindName{"hang", Fault::Kind::Hang},       KindName{"nan", Fault::Kind::Nan},
    KindName{"corrupt", Fault::Kind::Corrupt}, KindName{"full-disk", Fault::Kind::FullDisk},
};

Error bad(std::string_view text, std::string message) {
    return {ErrorCode::Usage, std::move(message), "--inject " + std::string(text),
            "slow:rank=1,ms=200, kill:rank=2,step=5, hang:rank=1,step=3, nan:step=4, corrupt, full-disk"};
}

}  // namespace

Result<Fault> parse_fault(std::string_view text) {
    const std::size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    const auto* kind =
        std::find_if(kKinds.begin(), kKinds.end(), [&](const KindName& k) { return k.name == name; });
    if (kind == kKinds.end()) return bad(text, "unknown fault '" + std::string(name) + "'");
    Fault fault;
    fault.kind = kind->kind;
    std::string_view rest = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
    while (!rest.empty()) {
        const std::size_t comma = rest.find(',');
        const std::string_view item = rest.substr(0, comma);
        rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
        const std::size_t equals = item.find('=');
        const std::string_view key = item.substr(0, equals);
        std::int64_t value = 0;
        const std::string_view digits =
            equals == std::string_view::npos ? std::string_view{} : item.substr(equals + 1);
        const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (digits.empty() || code != std::errc{} || end != digits.data() + digits.size() || value < 0) {
            return bad(text, "'" + std::string(item) + "' is not KEY=NUMBER");
        }
        if (key == "rank") {
            fault.rank = static_cast<int>(value);
        } else if (key == "step") {
            fault.step = value;
        } else if (key == "at") {
            fault.at = value;
        } else if (key == "ms") {
            fault.ms = static_cast<double>(value);
        } else if (key == "bytes") {
            fault.bytes = value;
        } else {
            return bad(text, "unknown key '" + std::string(key) + "': rank, step, at, ms or bytes");
        }
    }
    if (fault.kind == Fault::Kind::Slow && fault.ms <= 0) return bad(text, "a slow rank needs ms=N");
    return fault;
}

}  // namespace tw
