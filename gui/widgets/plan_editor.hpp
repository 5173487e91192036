// The fields of the shown plan: legal values to choose from, derived fields greyed, and what a change does to
// the figures.
#pragma once

#include <map>
#include <string>

#include "gui/widgets/panel.hpp"

class QComboBox;
class QLabel;
class QPushButton;
class QSpinBox;

namespace tw::gui {

class TableView;
class ValueTable;
class Workbench;

class PlanEditor : public Panel {
    Q_OBJECT

  public:
    explicit PlanEditor(Workbench& workbench, QWidget* parent = nullptr);

    [[nodiscard]] QTableView* table() const override;
    void focus_view() override;

  protected:
    void changeEvent(QEvent* event) override;

  private:
    void follow();
    void fill(const std::string& key);

    Workbench& workbench_;
    std::map<std::string, QComboBox*> choices_;
    std::map<std::string, QSpinBox*> numbers_;
    std::map<std::string, QLabel*> derived_;
    QLabel *name_ = nullptr, *verdict_ = nullptr;
    QPushButton *keep_ = nullptr, *revert_ = nullptr;
    ValueTable* differences_ = nullptr;
    TableView* table_ = nullptr;
    bool filling_ = false;
};

}  // namespace tw::gui
