// Two plans, or a prediction and a measurement, on one axis, with what differs: figures, fields of the plan,
// instructions by opcode and stage.
#pragma once

#include <array>
#include <memory>

#include "gui/widgets/panel.hpp"

class QComboBox;
class QLabel;
class QTabWidget;

namespace tw::gui {

class ActionSet;
class CompareTimelines;
class TableView;
class ValueTable;
class Workbench;
struct Compared;

class ComparePanel : public Panel {
    Q_OBJECT

  public:
    ComparePanel(Workbench& workbench, const ActionSet& actions, QWidget* parent = nullptr);
    ~ComparePanel() override;

    [[nodiscard]] CompareTimelines* timelines() const { return timelines_; }
    [[nodiscard]] QTableView* table() const override;
    void compare_with_measured();  // the shown plan against the last measured trace, or a note without one
    [[nodiscard]] QSize picture_size() const override;
    void paint_view(QPainter& painter, const QSize& size) override;

  protected:
    void come_into_view() override;

  private:
    // What a side may be: plan ids, or -1 - index of a measured trace; 0: the shown plan.
    void fill_sides();
    void choose(int side, int source);
    void compare();
    void take(const Compared& compared);

    Workbench& workbench_;
    std::array<QComboBox*, 2> sides_ = {};
    std::array<int, 2> last_ = {0, 0};
    QLabel* headline_ = nullptr;
    CompareTimelines* timelines_ = nullptr;
    QTabWidget* tabs_ = nullptr;
    ValueTable *figures_ = nullptr, *fields_ = nullptr, *instructions_ = nullptr;
    TableView *figure_table_ = nullptr, *field_table_ = nullptr, *instruction_table_ = nullptr;
    bool stale_ = true;
};

}  // namespace tw::gui
