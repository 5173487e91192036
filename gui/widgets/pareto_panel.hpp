// All plans as points over two measures of choice, with the front that no other plan beats in both.
#pragma once

#include "gui/widgets/panel.hpp"

class QComboBox;

namespace tw::gui {

class ActionSet;
class Plot;
class Workbench;

class ParetoPanel : public Panel {
    Q_OBJECT

  public:
    ParetoPanel(Workbench& workbench, const ActionSet& actions, QWidget* parent = nullptr);

    [[nodiscard]] Plot* plot() const { return plot_; }
    void paint_view(QPainter& painter, const QSize& size) override;
    void focus_view() override;

  private:
    void follow(bool keep_ranges);

    Workbench& workbench_;
    QComboBox *x_ = nullptr, *y_ = nullptr;
    Plot* plot_ = nullptr;
};

}  // namespace tw::gui
