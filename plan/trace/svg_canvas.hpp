// Writes SVG text: shapes with coordinates to a hundredth of a pixel, escaped text, the palette and its
// patterns. Attributes only, no style sheets: renderers of SVG Tiny read the result too (patterns aside).
#pragma once

#include <string>
#include <string_view>

#include "plan/trace/event_text.hpp"

namespace tw {

inline constexpr std::string_view kSvgFont = "DejaVu Sans, Segoe UI, Helvetica, Arial, sans-serif";
inline constexpr std::string_view kInk = "#1f2937";       // text
inline constexpr std::string_view kFaintInk = "#6b7280";  // secondary text
inline constexpr std::string_view kGrid = "#e5e7eb";
inline constexpr std::string_view kTrack = "#f3f4f6";  // an idle row
inline constexpr std::string_view kAlarm = "#c2410c";  // capacity lines

// Okabe and Ito 2008, "Color Universal Design", figure 16: eight colours that colour-blind readers tell
// apart.
std::string_view colour_of(Work work);
std::string_view text_colour_on(Work work);
// Fill attribute: the colour, or the pattern that marks communication. `chunk` > 0: paler, another model
// chunk.
std::string fill_of(Work work, std::size_t chunk = 0);
// Colours of stacked memory categories; repeats after eight.
std::string_view category_colour(std::size_t category);

std::string svg_number(double value);  // "12.5", "3": at most two decimals
std::string svg_escape(std::string_view text);

class SvgCanvas {
  public:
    explicit SvgCanvas(double width) : width_(width) {}

    [[nodiscard]] double width() const { return width_; }
    // An open rectangle: closed by the caller's ">...</rect>" through `inner` (a <title>), or empty.
    void rect(double x, double y, double w, double h, std::string_view attributes = {},
              std::string_view inner = {});
    void line(double x1, double y1, double x2, double y2, std::string_view attributes);
    void text(double x, double y, std::string_view text, std::string_view attributes = {});
    void open_group(std::string_view attributes);
    void close_group();
    void raw(std::string_view markup) { body_ += markup; }
    // The document: header, patterns, a white background and the body.
    [[nodiscard]] std::string finish(double height, std::string_view title) const;

  private:
    double width_;
    std::string body_;
};

// Estimated width of text in pixels, by classes of DejaVu Sans' advance widths (digits 0.636 em, i and l
// 0.278, m 0.974).
double text_width(std::string_view text, double font_size);

}  // namespace tw
