// The table of plans with its filter.
#pragma once

#include <string_view>

#include "gui/widgets/panel.hpp"

class QCheckBox;
class QLabel;
class QLineEdit;

namespace tw::gui {

class ActionSet;
class PlansFilter;
class PlansModel;
class TableView;
class Workbench;

class PlansPanel : public Panel {
    Q_OBJECT

  public:
    PlansPanel(Workbench& workbench, const ActionSet& actions, QWidget* parent = nullptr);

    bool perform(std::string_view id);  // actions of the context Plans
    [[nodiscard]] QTableView* table() const override;
    void set_show_infeasible(bool show);

  private:
    void follow_selection();
    void select_current();
    void follow_search();
    [[nodiscard]] QString why_empty() const;
    void fit();
    [[nodiscard]] int current_id() const;

    Workbench& workbench_;
    PlansModel* model_ = nullptr;
    PlansFilter* filter_ = nullptr;
    TableView* table_ = nullptr;
    QLineEdit* filter_text_ = nullptr;
    QCheckBox* infeasible_ = nullptr;
    QLabel *empty_ = nullptr, *status_ = nullptr;
    bool following_ = false;
};

}  // namespace tw::gui
