// The sums of a timeline's range selection by kind of work, with a check box for every lane of the range.
// Copies as TSV.
#pragma once

#include <memory>

#include "gui/view/range_sums.hpp"
#include "gui/widgets/panel.hpp"

class QTreeWidget;
class QLabel;

namespace tw::gui {

class TableView;
class TimelineView;
class ValueTable;

class RangePanel : public Panel {
    Q_OBJECT

  public:
    explicit RangePanel(QWidget* parent = nullptr);

    // Follows the view's range; null: none.
    void set_view(TimelineView* view);
    [[nodiscard]] const RangeSums& sums() const { return sums_; }
    [[nodiscard]] QString tsv() const;
    void copy() const;  // to the clipboard
    [[nodiscard]] QTableView* table() const override;

  private:
    void refresh();
    void lane_toggled();

    TimelineView* view_ = nullptr;
    RangeSelection range_;  // every lane that was dragged over
    RangeSums sums_;
    QLabel* heading_ = nullptr;
    ValueTable* rows_ = nullptr;
    TableView* table_ = nullptr;
    QTreeWidget* lanes_ = nullptr;
    bool filling_ = false;
};

}  // namespace tw::gui
