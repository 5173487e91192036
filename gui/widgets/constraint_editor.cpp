#include "gui/widgets/constraint_editor.hpp"

#include <QEvent>
#include <QGridLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QMouseEvent>
#include <QToolButton>
#include <algorithm>

#include "gui/app/workbench.hpp"
#include "gui/widgets/theme.hpp"
#include "gui/worker/fix_edit.hpp"
#include "gui/worker/plan_fields.hpp"

namespace tw::gui {
namespace {

// Several values are ticked at one opening: what can be ticked does not close it.
class TickMenu : public QMenu {
  public:
    using QMenu::QMenu;

  protected:
    void mouseReleaseEvent(QMouseEvent* event) override {
        if (!tick()) QMenu::mouseReleaseEvent(event);
    }
    void keyPressEvent(QKeyEvent* event) override {
        if (event->key() != Qt::Key_Space || !tick()) QMenu::keyPressEvent(event);
    }

  private:
    bool tick() {
        QAction* const action = activeAction();
        if (action == nullptr || !action->isEnabled() || !action->isCheckable()) return false;
        action->trigger();
        return true;
    }
};

}  // namespace

ConstraintEditor::ConstraintEditor(Workbench& workbench, QWidget* parent)
    : QWidget(parent), workbench_(workbench) {
    auto* grid = new QGridLayout(this);
    grid->setContentsMargins(0, 2, 0, 0);
    grid->setSpacing(3);
    int at = 0;
    constexpr int kColumns = 5;
    for (const char* key : constraint_keys()) {
        auto* button = new QToolButton;
        button->setPopupMode(QToolButton::InstantPopup);
        button->setToolButtonStyle(Qt::ToolButtonTextOnly);
        button->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
        button->setFocusPolicy(Qt::StrongFocus);
        const PlanField* field = find_field(key);
        const QString title = field != nullptr ? QString::fromUtf8(field->title) : QString(key);
        button->setAccessibleName(tr("Constraint on %1").arg(title));
        button->setToolTip(title);
        auto* menu = new TickMenu(button);
        button->setMenu(menu);
        connect(menu, &QMenu::aboutToShow, this, [this, k = std::string(key)] { fill_menu(k); });
        buttons_[key] = button;
        // The two with long words take two columns each.
        const bool wide = std::string_view(key) == "schedule" || std::string_view(key) == "recompute";
        if (wide && at % kColumns == kColumns - 1) ++at;
        grid->addWidget(button, at / kColumns, at % kColumns, 1, wide ? 2 : 1);
        at += wide ? 2 : 1;
    }
    spec_ = new QLineEdit;
    spec_->setObjectName("fix");
    spec_->setAccessibleName(tr("Constraints as text"));
    spec_->setPlaceholderText(tr("tp=4..8,schedule=1f1b|zb-h1: nothing is fixed"));
    wrong_ = new QLabel;
    wrong_->setWordWrap(true);
    wrong_->hide();
    grid->addWidget(spec_, at / kColumns + 1, 0, 1, kColumns);
    grid->addWidget(wrong_, at / kColumns + 2, 0, 1, kColumns);
    connect(spec_, &QLineEdit::editingFinished, this, &ConstraintEditor::typed);
    connect(&workbench, &Workbench::setup_changed, this, &ConstraintEditor::follow);
    follow();
}

void ConstraintEditor::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange && wrong_ != nullptr) follow();
}

void ConstraintEditor::follow() {
    const std::string& spec = workbench_.setup().fix;
    spec_->setText(QString::fromStdString(spec));
    const auto constraints = parse_fix(spec);
    wrong_->setVisible(!constraints);
    if (!constraints) wrong_->setText(QString::fromStdString(to_string(constraints.errors())));
    QPalette palette = wrong_->palette();
    palette.setColor(QPalette::WindowText, tones(this->palette()).bad);
    wrong_->setPalette(palette);
    const auto parts = fix_choices(spec);
    for (const auto& [key, button] : buttons_) {
        const auto part = parts.find(key);
        QFont font = button->font();
        font.setBold(part != parts.end());
        button->setFont(font);
        const QString value = part == parts.end() ? QString() : QString::fromStdString(part->second);
        if (button->menu()->isVisible()) tick(*button->menu(), key);
        button->setText(value.isEmpty() ? QString::fromStdString(key)
                                        : QString("%1 %2").arg(key.c_str(), value.left(14)));
    }
}

void ConstraintEditor::fill_menu(const std::string& key) {
    QMenu* menu = buttons_.at(key)->menu();
    menu->clear();
    auto* any = menu->addAction(tr("any"), this, [this, key] { toggle(key, "", false); });
    any->setCheckable(true);
    any->setData(QString());
    menu->addSeparator();
    if (!workbench_.study()) {
        menu->addAction(tr("choose a model and a cluster first"))->setEnabled(false);
        return tick(*menu, key);
    }
    for (const std::string& value :
         constraint_values(*workbench_.study(), workbench_.setup().global_batch, key)) {
        auto* action = menu->addAction(QString::fromStdString(value));
        action->setCheckable(true);
        action->setData(QString::fromStdString(value));
        connect(action, &QAction::triggered, this, [this, key, value](bool on) { toggle(key, value, on); });
    }
    tick(*menu, key);
}

void ConstraintEditor::tick(const QMenu& menu, const std::string& key) {
    const auto parts = fix_choices(workbench_.setup().fix);
    const auto part = parts.find(key);
    for (QAction* action : menu.actions()) {
        const std::string value = action->data().toString().toStdString();
        if (action->isCheckable())
            action->setChecked(value.empty() ? part == parts.end()
                                             : part != parts.end() && fix_allows(part->second, value));
    }
}

void ConstraintEditor::toggle(const std::string& key, const std::string& value, bool on) {
    Setup setup = workbench_.setup();
    const std::vector<std::string> legal =
        workbench_.study() ? constraint_values(*workbench_.study(), setup.global_batch, key)
                           : std::vector<std::string>{};
    setup.fix = toggled_fix(setup.fix, key, value, on, legal);
    workbench_.edit_setup(setup, tr("Constraint on %1").arg(key.c_str()));
    follow();  // a tick that changes nothing is still there
}

void ConstraintEditor::typed() {
    Setup setup = workbench_.setup();
    setup.fix = typed_fix(spec_->text().toStdString());
    workbench_.edit_setup(setup, tr("Constraints"));
}

}  // namespace tw::gui
