// Which model on which cluster, and what the search may do.
#pragma once

#include "gui/widgets/panel.hpp"

class QComboBox;
class QDoubleSpinBox;
class QLabel;
class QLineEdit;
class QPushButton;
class QSpinBox;

namespace tw::gui {

class ConstraintEditor;
class Workbench;

class SetupPanel : public Panel {
    Q_OBJECT

  public:
    explicit SetupPanel(Workbench& workbench, QWidget* parent = nullptr);

    void focus_view() override;

  private:
    void follow();  // the workbench's setup into the widgets
    void edited();  // and back
    void follow_search();
    void describe_study();

    Workbench& workbench_;
    QComboBox *model_ = nullptr, *cluster_ = nullptr, *precision_ = nullptr, *optimizer_ = nullptr,
              *objective_ = nullptr, *framework_ = nullptr;
    QSpinBox *devices_ = nullptr, *batch_ = nullptr, *seq_len_ = nullptr, *top_ = nullptr;
    QDoubleSpinBox* headroom_ = nullptr;
    ConstraintEditor* constraints_ = nullptr;
    QPushButton *find_ = nullptr, *cancel_ = nullptr;
    QLabel *facts_ = nullptr, *progress_ = nullptr;
    bool filling_ = false;
};

}  // namespace tw::gui
