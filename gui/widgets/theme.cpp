#include "gui/widgets/theme.hpp"

#include <QApplication>
#include <QPainter>
#include <QProxyStyle>
#include <QStyleFactory>
#include <QStyleOption>
#include <algorithm>
#include <array>
#include <cmath>

namespace tw::gui {
namespace {

Theme chosen = Theme::System;

// Fusion, whose buttons of panels are dark whatever the palette: ours have the colour of text.
class PanelStyle : public QProxyStyle {
  public:
    PanelStyle() : QProxyStyle(QStyleFactory::create("Fusion")) {}

    void drawPrimitive(PrimitiveElement which, const QStyleOption* option, QPainter* painter,
                       const QWidget* widget) const override {
        QProxyStyle::drawPrimitive(which, option, painter, widget);
        const bool box = which == PE_IndicatorCheckBox || which == PE_IndicatorItemViewItemCheck;
        if (!box || !is_dark(option->palette)) return;
        // Fusion's outline is darker than the ground, which is dark.
        painter->save();
        painter->setPen(option->palette.color(QPalette::PlaceholderText));
        painter->setBrush(Qt::NoBrush);
        painter->drawRect(QRectF(option->rect).adjusted(0.5, 0.5, -0.5, -0.5));
        painter->restore();
    }

    // Tips of what is drawn come at once: views with the property "tips_at_once". Those of buttons wait.
    [[nodiscard]] int styleHint(StyleHint hint, const QStyleOption* option, const QWidget* widget,
                                QStyleHintReturn* answer) const override {
        if (hint == SH_ToolTip_WakeUpDelay && widget != nullptr && widget->property("tips_at_once").toBool())
            return 0;
        return QProxyStyle::styleHint(hint, option, widget, answer);
    }

    [[nodiscard]] QIcon standardIcon(StandardPixmap which, const QStyleOption* option,
                                     const QWidget* widget) const override {
        const bool closes = which == SP_TitleBarCloseButton || which == SP_DockWidgetCloseButton;
        if (!closes && which != SP_TitleBarNormalButton)
            return QProxyStyle::standardIcon(which, option, widget);
        QIcon icon;
        for (const qreal scale : {1.0, 2.0, 3.0}) {
            QPixmap picture(QSize(10, 10) * scale);
            picture.setDevicePixelRatio(scale);
            picture.fill(Qt::transparent);
            QPainter painter(&picture);
            painter.setRenderHint(QPainter::Antialiasing);
            painter.setPen(QPen(QApplication::palette().color(QPalette::WindowText), 1.3));
            if (closes) {
                painter.drawLine(QPointF(2, 2), QPointF(8, 8));
                painter.drawLine(QPointF(8, 2), QPointF(2, 8));
            } else {
                painter.drawRect(QRectF(1.5, 3.5, 5, 5));
                painter.drawPolyline(QPolygonF({{3.5, 1.5}, {8.5, 1.5}, {8.5, 6.5}}));
            }
            icon.addPixmap(picture);
        }
        return icon;
    }
};

QPalette light_palette() {
    QPalette p;
    p.setColor(QPalette::Window, QColor("#f3f4f6"));
    p.setColor(QPalette::WindowText, QColor("#1f2937"));
    p.setColor(QPalette::Base, QColor("#ffffff"));
    p.setColor(QPalette::AlternateBase, QColor("#f7f8fa"));
    p.setColor(QPalette::Text, QColor("#1f2937"));
    p.setColor(QPalette::Button, QColor("#e9ebef"));
    p.setColor(QPalette::ButtonText, QColor("#1f2937"));
    p.setColor(QPalette::BrightText, QColor("#ffffff"));
    p.setColor(QPalette::Highlight, QColor("#1d5fa8"));
    p.setColor(QPalette::HighlightedText, QColor("#ffffff"));
    p.setColor(QPalette::ToolTipBase, QColor("#ffffff"));
    p.setColor(QPalette::ToolTipText, QColor("#1f2937"));
    p.setColor(QPalette::PlaceholderText, QColor("#6b7280"));
    p.setColor(QPalette::Link, QColor("#1d5fa8"));
    p.setColor(QPalette::LinkVisited, QColor("#6d3fa0"));
    p.setColor(QPalette::Light, QColor("#ffffff"));
    p.setColor(QPalette::Midlight, QColor("#e5e7eb"));
    p.setColor(QPalette::Mid, QColor("#c3c8d0"));
    p.setColor(QPalette::Dark, QColor("#9ca3af"));
    p.setColor(QPalette::Shadow, QColor("#6b7280"));
    for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
        p.setColor(QPalette::Disabled, role, QColor("#8b93a1"));
    p.setColor(QPalette::Disabled, QPalette::Highlight, QColor("#c3c8d0"));
    return p;
}

QPalette dark_palette() {
    QPalette p;
    p.setColor(QPalette::Window, QColor("#2a2f35"));
    p.setColor(QPalette::WindowText, QColor("#dde2e8"));
    p.setColor(QPalette::Base, QColor("#181b1f"));
    p.setColor(QPalette::AlternateBase, QColor("#1e2227"));
    p.setColor(QPalette::Text, QColor("#dde2e8"));
    p.setColor(QPalette::Button, QColor("#3a4048"));
    p.setColor(QPalette::ButtonText, QColor("#dde2e8"));
    p.setColor(QPalette::BrightText, QColor("#ffffff"));
    p.setColor(QPalette::Highlight, QColor("#2f6fb5"));
    p.setColor(QPalette::HighlightedText, QColor("#ffffff"));
    p.setColor(QPalette::ToolTipBase, QColor("#2b3036"));
    p.setColor(QPalette::ToolTipText, QColor("#dde2e8"));
    p.setColor(QPalette::PlaceholderText, QColor("#8f98a3"));
    p.setColor(QPalette::Link, QColor("#6cb0f2"));
    p.setColor(QPalette::LinkVisited, QColor("#b79ae0"));
    p.setColor(QPalette::Light, QColor("#4a525c"));
    p.setColor(QPalette::Midlight, QColor("#30353c"));
    p.setColor(QPalette::Mid, QColor("#3d444d"));
    p.setColor(QPalette::Dark, QColor("#101215"));
    p.setColor(QPalette::Shadow, QColor("#08090a"));
    for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
        p.setColor(QPalette::Disabled, role, QColor("#6f7883"));
    p.setColor(QPalette::Disabled, QPalette::Highlight, QColor("#3d444d"));
    return p;
}

// Figure 16 of the source; yellow is darkened on light grounds, black becomes grey.
constexpr std::array<const char*, 8> kLight = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                               "#56b4e9", "#b8860b", "#6b7280", "#7a4fb3"};
constexpr std::array<const char*, 8> kDark = {"#4aa3df", "#ef8a3c", "#2fc296", "#e29ac4",
                                              "#8accf2", "#e3c94c", "#a8b0ba", "#b294e0"};

}  // namespace

void apply_theme(Theme theme) {
    chosen = theme;
    if (theme == Theme::System) return;
    QApplication::setPalette(theme == Theme::Dark ? dark_palette() : light_palette());
    QApplication::setStyle(new PanelStyle);  // after its colours: icons are made once
}

Theme current_theme() {
    if (chosen != Theme::System) return chosen;
    return is_dark(QApplication::palette()) ? Theme::Dark : Theme::Light;
}

bool is_dark(const QPalette& palette) {
    return palette.color(QPalette::Base).lightnessF() < 0.5;
}

double contrast(const QColor& a, const QColor& b) {
    const auto linear = [](double c) {
        return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
    };
    const auto luminance = [&](const QColor& c) {
        return 0.2126 * linear(c.redF()) + 0.7152 * linear(c.greenF()) + 0.0722 * linear(c.blueF());
    };
    const double x = luminance(a), y = luminance(b);
    return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

QColor focus_colour(const QPalette& palette) {
    const QColor highlight = palette.color(QPalette::Highlight);
    if (contrast(highlight, palette.color(QPalette::Base)) >= 3) return highlight;
    return {QLatin1String(is_dark(palette) ? "#6cb2ff" : "#0b62c4")};
}

Tones tones(const QPalette& palette) {
    const bool dark = is_dark(palette);
    Tones t;
    t.text = palette.color(QPalette::Text);
    t.faint = dark ? QColor("#98a2ae") : QColor("#5b6472");
    t.good = dark ? QColor("#4cc48f") : QColor("#0b7a4b");
    t.bad = dark ? QColor("#f2836b") : QColor("#b42318");
    t.warning = dark ? QColor("#e3b341") : QColor("#8a5a00");
    t.grid = dark ? QColor("#2c3138") : QColor("#e5e7eb");
    t.frame = dark ? QColor("#4a525c") : QColor("#b9c0ca");
    t.track = dark ? QColor("#22272d") : QColor("#f3f4f6");
    t.selection = focus_colour(palette);
    return t;
}

QColor series_colour(std::size_t index, const QPalette& palette) {
    const auto& colours = is_dark(palette) ? kDark : kLight;
    return {QLatin1String(colours[index % colours.size()])};
}

void paint_focus(QPainter& painter, const QRect& view, const QPalette& palette) {
    painter.save();
    painter.setRenderHint(QPainter::Antialiasing, false);
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(focus_colour(palette), 1));
    painter.drawRect(view.adjusted(0, 0, -1, -1));
    painter.restore();
}

QColor text_on(const QColor& fill) {
    const QColor dark("#111418"), light("#ffffff");
    return contrast(dark, fill) >= contrast(light, fill) ? dark : light;
}

}  // namespace tw::gui
