// Where each rank's step goes: one stacked bar a rank, parts in the colours of the timeline's kinds.
#pragma once

#include <QWidget>
#include <memory>
#include <optional>
#include <vector>

namespace tw {
struct SimulationReport;
}

namespace tw::gui {

class BreakdownBars : public QWidget {
    Q_OBJECT

  public:
    explicit BreakdownBars(QWidget* parent = nullptr);

    // As the timeline names it: "PP3".
    [[nodiscard]] static QString name_of(int rank);
    void set_report(std::shared_ptr<const SimulationReport> report);
    void paint(QPainter& painter, const QSizeF& size) const;

    [[nodiscard]] QSize sizeHint() const override { return {420, 220}; }
    [[nodiscard]] QSize minimumSizeHint() const override { return {200, 90}; }

  Q_SIGNALS:
    void rank_selected(int rank);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    bool event(QEvent* event) override;

  private:
    struct Bar;
    template <class Place>
    double place_legend(double width, const Place& place) const;
    [[nodiscard]] double legend_height(double width) const;
    [[nodiscard]] std::vector<Bar> bars(const QSizeF& size) const;
    void choose(std::size_t index);
    [[nodiscard]] QString description(std::size_t index) const;

    std::shared_ptr<const SimulationReport> report_;
    std::optional<std::size_t> chosen_;  // into the report's ranks
};

}  // namespace tw::gui
