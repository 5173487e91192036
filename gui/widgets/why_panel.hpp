// Why a plan takes the time it takes: breakdown, sensitivities, what-ifs, what the next plans lose.
#pragma once

#include "gui/widgets/panel.hpp"

class QDoubleSpinBox;
class QLabel;
class QPushButton;
class QSpinBox;

namespace tw::gui {

class BreakdownBars;
class ColumnsOrTabs;
class TableView;
class ValueTable;
class Workbench;

class WhyPanel : public Panel {
    Q_OBJECT

  public:
    explicit WhyPanel(Workbench& workbench, QWidget* parent = nullptr);

    [[nodiscard]] QTableView* table() const override;  // that has the focus, else the first in front
    void focus_sensitivities();
    void focus_what_if();
    void what_if(int lost_nodes, double nics);  // as typed and tried
    [[nodiscard]] BreakdownBars* bars() const { return bars_; }

  protected:
    void come_into_view() override;

  private:
    void follow();
    void follow_explanation();
    void follow_jobs();
    void follow_what_if();
    void explain_if_shown();
    void try_what_if();

    Workbench& workbench_;
    BreakdownBars* bars_ = nullptr;
    ValueTable *breakdown_ = nullptr, *sensitivities_ = nullptr, *neighbours_ = nullptr, *answer_ = nullptr;
    TableView *breakdown_table_ = nullptr, *sensitivity_table_ = nullptr, *neighbour_table_ = nullptr,
              *answer_table_ = nullptr;
    ColumnsOrTabs* pages_ = nullptr;
    QWidget *sensitivity_page_ = nullptr, *what_if_page_ = nullptr;
    QSpinBox* lost_ = nullptr;
    QDoubleSpinBox *nics_ = nullptr, *nic_speed_ = nullptr, *links_ = nullptr, *memory_ = nullptr,
                   *compute_ = nullptr;
    QLabel *status_ = nullptr, *answer_text_ = nullptr;
    QPushButton *try_ = nullptr, *adopt_ = nullptr;
    bool stale_ = true;  // what is shown is older than the plan
    bool judging_ = false;
};

}  // namespace tw::gui
