// The cluster with the groups of the shown plan, and a table of what each kind of group moves over which
// links.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "gui/widgets/panel.hpp"

class QComboBox;
class QLabel;

namespace tw::gui {

class TableView;
class TopologyView;
class ValueTable;
class Workbench;

class TopologyPanel : public Panel {
    Q_OBJECT

  public:
    explicit TopologyPanel(Workbench& workbench, QWidget* parent = nullptr);

    [[nodiscard]] TopologyView* view() const { return view_; }
    [[nodiscard]] QTableView* table() const override;
    void focus_view() override;

  Q_SIGNALS:
    void pipeline_ranks_chosen(const std::set<int>& ranks);

  protected:
    void come_into_view() override;

  private:
    void follow();
    void offer_kinds(const std::vector<std::string>& kinds);

    Workbench& workbench_;
    TopologyView* view_ = nullptr;
    QComboBox* kind_ = nullptr;
    QLabel* status_ = nullptr;
    ValueTable* loads_ = nullptr;
    TableView* table_ = nullptr;
    bool stale_ = true;  // what is shown is older than the plan
};

}  // namespace tw::gui
