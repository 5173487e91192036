// Small plots over QCustomPlot, which stays behind this file: series of lines, points and bands on linear or
// logarithmic axes, in the palette's colours, with a selected point, zoom and pan by mouse and keys.
#pragma once

#include <QString>
#include <QWidget>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

class QCustomPlot;
class QPainter;

namespace tw::gui {

struct PlotSeries {
    QString name;  // "" : not in the legend
    std::vector<double> x, y;
    std::vector<double> low, high;  // a band around y, same length; empty: none
    std::vector<int> keys;          // of points: what clicking one reports; empty: not selectable
    std::vector<QString> labels;    // of points, shown on hover
    bool line = true, points = false, dashed = false, faint = false;
    int colour = -1;  // of series_colour; -1: its position
};

struct PlotAxis {
    QString title;
    bool logarithmic = false;
    std::function<QString(double)> text = {};  // of a tick; empty: the number
    bool bytes = false;                        // ticks at whole KiB, MiB, GiB
};

class Plot : public QWidget {
    Q_OBJECT

  public:
    explicit Plot(const QString& name, QWidget* parent = nullptr);
    ~Plot() override;

    // Keeps the visible ranges where `keep_ranges`.
    void show_series(std::vector<PlotSeries> series, PlotAxis x, PlotAxis y, bool keep_ranges = false);
    void select_key(int key);  // -1: none
    void set_empty_text(const QString& text);
    void set_legend_corner(Qt::Alignment corner);  // top right at first
    void fit();
    bool perform(std::string_view id);  // actions of the context Plot
    // Vectors stay vectors; `painter` is at the plot's corner.
    void paint_plot(QPainter& painter, const QSize& size);
    [[nodiscard]] std::size_t series_count() const { return series_.size(); }

  Q_SIGNALS:
    void key_selected(int key);

  protected:
    void changeEvent(QEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void paintEvent(QPaintEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;

  private:
    void rebuild();
    void apply_colours();
    void suit_size();
    [[nodiscard]] std::optional<double> only_value(bool across) const;
    void zoom(double factor);
    void step(int by);
    void place_selection();
    [[nodiscard]] int key_near(const QPointF& place, QString* label) const;

    QCustomPlot* plot_ = nullptr;
    std::vector<PlotSeries> series_;
    PlotAxis x_, y_;
    QString empty_;
    int selected_ = -1;
    bool named_ = false;  // a series has a name
};

}  // namespace tw::gui
