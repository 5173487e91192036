#include "plan/trace/svg_canvas.hpp"

#include <array>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

namespace tw {
namespace {

constexpr std::array<std::string_view, kWorkKinds> kColours = {
    "#56b4e9",  // forward: sky blue
    "#009e73",  // backward: bluish green
    "#e69f00",  // weights: orange
    "#56b4e9",  // both: split in two by the timeline
    "#0072b2",  // optimizer: blue
    "#9ca3af",  // copies
    "#cc79a7",  // pipeline transfers: reddish purple
    "#d55e00",  // data parallel: vermilion
    "#b59b00",  // tensor parallel: yellow, darkened to show on white
    "#7f5fa8",  // expert parallel
    "#6b7280",  // offload
    "#c4c9d0",  // host
};
// Paler by half: a later model chunk.
constexpr std::array<std::string_view, 3> kPale = {"#aad9f4", "#80cfb9", "#f2cf80"};

constexpr std::array<std::string_view, 9> kCategories = {
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#9ca3af", "#4b5563"};

bool has_pattern(Work work) {
    return is_communication(work);
}

// Direction of each communication's stripes, so that they differ without colour too.
double stripe_angle(Work work) {
    switch (work) {
        case Work::DataParallel:
            return -45;
        case Work::TensorParallel:
            return 0;
        case Work::ExpertParallel:
            return 90;
        default:
            return 45;
    }
}

}  // namespace

std::string_view colour_of(Work work) {
    return kColours[static_cast<std::size_t>(work)];
}

std::string_view text_colour_on(Work work) {
    return work == Work::Optimizer || work == Work::Backward ? "#ffffff" : "#10202c";
}

std::string fill_of(Work work, std::size_t chunk) {
    if (has_pattern(work)) return fmt::format("url(#{})", short_name(work));
    if (chunk % 2 == 1 && static_cast<std::size_t>(work) < kPale.size()) {
        return std::string(kPale[static_cast<std::size_t>(work)]);
    }
    return std::string(colour_of(work));
}

std::string_view category_colour(std::size_t category) {
    return kCategories[category % kCategories.size()];
}

std::string svg_number(double value) {
    const long long hundredths = std::llround(value * 100);
    const long long whole = std::llabs(hundredths) / 100, rest = std::llabs(hundredths) % 100;
    std::string out = hundredths < 0 ? "-" : "";
    out += std::to_string(whole);
    if (rest == 0) return out;
    out += rest % 10 == 0 ? fmt::format(".{}", rest / 10) : fmt::format(".{:02}", rest);
    return out;
}

std::string svg_escape(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            default:
                if (static_cast<unsigned char>(c) >= 0x20) out += c;  // control characters are no XML
        }
    }
    return out;
}

void SvgCanvas::rect(double x, double y, double w, double h, std::string_view attributes,
                     std::string_view inner) {
    body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", svg_number(x), svg_number(y),
                         svg_number(w), svg_number(h));
    if (!attributes.empty()) body_ += fmt::format(" {}", attributes);
    body_ += inner.empty() ? "/>\n" : fmt::format(">{}</rect>\n", inner);
}

void SvgCanvas::line(double x1, double y1, double x2, double y2, std::string_view attributes) {
    body_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" {}/>\n", svg_number(x1),
                         svg_number(y1), svg_number(x2), svg_number(y2), attributes);
}

void SvgCanvas::text(double x, double y, std::string_view text, std::string_view attributes) {
    body_ += fmt::format("<text x=\"{}\" y=\"{}\"", svg_number(x), svg_number(y));
    if (!attributes.empty()) body_ += fmt::format(" {}", attributes);
    body_ += fmt::format(">{}</text>\n", svg_escape(text));
}

void SvgCanvas::open_group(std::string_view attributes) {
    body_ += fmt::format("<g {}>\n", attributes);
}

void SvgCanvas::close_group() {
    body_ += "</g>\n";
}

std::string SvgCanvas::finish(double height, std::string_view title) const {
    const std::string w = svg_number(width_), h = svg_number(height);
    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\" "
        "font-family=\"{}\" "
        "font-size=\"12\" fill=\"{}\">\n<title>{}</title>\n<defs>\n",
        w, h, w, h, kSvgFont, kInk, svg_escape(title));
    for (int k = 0; k < kWorkKinds; ++k) {
        const auto work = static_cast<Work>(k);
        if (!has_pattern(work)) continue;
        out += fmt::format(
            "<pattern id=\"{}\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" "
            "patternTransform=\"rotate({})\">"
            "<rect width=\"4\" height=\"4\" fill=\"{}\"/><rect width=\"1.3\" height=\"4\" fill=\"#ffffff\" "
            "fill-opacity=\"0.55\"/></pattern>\n",
            short_name(work), svg_number(stripe_angle(work)), colour_of(work));
    }
    out += fmt::format("</defs>\n<rect width=\"{}\" height=\"{}\" fill=\"#ffffff\"/>\n", w, h);
    return out + body_ + "</svg>\n";
}

double text_width(std::string_view text, double font_size) {
    double em = 0;
    for (const char c : text) {
        if ((static_cast<unsigned char>(c) & 0xC0U) == 0x80U) continue;  // the rest of a UTF-8 character
        if (std::string_view("ijl.,:;|' ").find(c) != std::string_view::npos) {
            em += 0.31;
        } else if (std::string_view("frt()-").find(c) != std::string_view::npos) {
            em += 0.39;
        } else if (c == 'm' || c == 'w' || c == 'M' || c == 'W' || c == '%') {
            em += 0.93;
        } else if (c >= 'A' && c <= 'Z') {
            em += 0.7;
        } else {
            em += 0.63;
        }
    }
    return em * font_size;
}

}  // namespace tw
