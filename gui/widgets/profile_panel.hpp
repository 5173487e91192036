// The fitted curves of a hardware profile with raw samples and residuals; what dropped topologies and logs
// say.
#pragma once

#include <vector>

#include "gui/widgets/panel.hpp"

class QComboBox;
class QLabel;
class QListWidget;
class QPushButton;

namespace tw {
struct ProfileDocument;
}

namespace tw::gui {

class ActionSet;
class Plot;
class TableView;
class ValueTable;
class Workbench;
struct ProfileChart;

class ProfilePanel : public Panel {
    Q_OBJECT

  public:
    ProfilePanel(Workbench& workbench, const ActionSet& actions, QWidget* parent = nullptr);
    ~ProfilePanel() override;

    [[nodiscard]] Plot* plot() const { return curves_; }
    [[nodiscard]] QTableView* table() const override;
    void paint_view(QPainter& painter, const QSize& size) override;

  protected:
    void come_into_view() override;

  private:
    void fill_list();
    void choose();  // the list's current row
    void show_profile(const ProfileDocument& document);
    void show_chart();
    void use_as_cluster();
    void show_import(std::size_t index);
    void follow_study();

    Workbench& workbench_;
    QListWidget* list_ = nullptr;
    QComboBox* chart_ = nullptr;
    QLabel* title_ = nullptr;
    QPushButton* adopt_ = nullptr;
    Plot *curves_ = nullptr, *residuals_ = nullptr;
    ValueTable* facts_ = nullptr;
    TableView* table_ = nullptr;
    std::vector<ProfileChart> charts_;
    bool stale_ = true;  // what is shown is not the chosen row
};

}  // namespace tw::gui
