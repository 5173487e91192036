// What a plan must have: for each key of --fix the values that are legal for the model on the cluster, to be
// ticked; the spec itself below, to be typed or copied.
#pragma once

#include <QWidget>
#include <map>
#include <string>

class QLabel;
class QLineEdit;
class QMenu;
class QToolButton;

namespace tw::gui {

class Workbench;

class ConstraintEditor : public QWidget {
    Q_OBJECT

  public:
    explicit ConstraintEditor(Workbench& workbench, QWidget* parent = nullptr);

  protected:
    void changeEvent(QEvent* event) override;

  private:
    void follow();
    void fill_menu(const std::string& key);
    void tick(const QMenu& menu, const std::string& key);  // what the setup allows
    void toggle(const std::string& key, const std::string& value, bool on);
    void typed();

    Workbench& workbench_;
    std::map<std::string, QToolButton*> buttons_;
    QLineEdit* spec_ = nullptr;
    QLabel* wrong_ = nullptr;
};

}  // namespace tw::gui
