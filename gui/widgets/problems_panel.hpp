// Errors and warnings: which field or file, what is wrong, what to do instead.
#pragma once

#include "gui/widgets/panel.hpp"

class QLabel;

namespace tw::gui {

class TableView;
class ValueTable;
class Workbench;

class ProblemsPanel : public Panel {
    Q_OBJECT

  public:
    explicit ProblemsPanel(Workbench& workbench, QWidget* parent = nullptr);

    [[nodiscard]] QTableView* table() const override;
    [[nodiscard]] int errors() const { return errors_; }

  Q_SIGNALS:
    void error_appeared();
    void place_chosen(const QString& where);  // a row was activated: "setup: fix", "plan: tp"

  private:
    void follow();

    Workbench& workbench_;
    ValueTable* model_ = nullptr;
    TableView* table_ = nullptr;
    QLabel* empty_ = nullptr;
    int errors_ = 0;
    bool fit_due_ = false;
};

}  // namespace tw::gui
