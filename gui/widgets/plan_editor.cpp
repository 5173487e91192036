#include "gui/widgets/plan_editor.hpp"

#include <QComboBox>
#include <QFocusEvent>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QPushButton>
#include <QSpinBox>
#include <QStandardItemModel>
#include <QWheelEvent>

#include "gui/app/workbench.hpp"
#include "gui/item_models/report_rows.hpp"
#include "gui/widgets/table_view.hpp"
#include "gui/widgets/theme.hpp"
#include "gui/worker/plan_fields.hpp"
#include "sim/report/report.hpp"

namespace tw::gui {
namespace {

// Fills its list when it is opened: judging all values of all fields at every edit would cost more than the
// edit.
class LazyCombo : public QComboBox {
  public:
    explicit LazyCombo(std::function<void()> fill) : fill_(std::move(fill)) {
        setSizeAdjustPolicy(AdjustToMinimumContentsLengthWithIcon);
        setMinimumContentsLength(4);
    }
    void showPopup() override {
        fill_();
        QComboBox::showPopup();
    }

  protected:
    void keyPressEvent(QKeyEvent* event) override {
        if (!filled_) fill_();
        filled_ = true;
        QComboBox::keyPressEvent(event);
    }
    void focusOutEvent(QFocusEvent* event) override {
        filled_ = false;
        QComboBox::focusOutEvent(event);
    }
    void wheelEvent(QWheelEvent* event) override {
        event->ignore();  // scrolling the panel never edits the plan
    }

  private:
    std::function<void()> fill_;
    bool filled_ = false;
};

}  // namespace

PlanEditor::PlanEditor(Workbench& workbench, QWidget* parent)
    : Panel("plan_editor", tr("Plan"), parent), workbench_(workbench) {
    name_ = new QLabel;
    name_->setWordWrap(true);
    name_->setTextInteractionFlags(Qt::TextSelectableByMouse);
    QFont bold = name_->font();
    bold.setBold(true);
    name_->setFont(bold);
    verdict_ = new QLabel;
    verdict_->setWordWrap(true);
    auto* content = new QWidget;
    auto* grid = new QGridLayout(content);
    grid->setContentsMargins(8, 6, 8, 6);
    grid->setHorizontalSpacing(6);
    grid->setVerticalSpacing(3);
    grid->setColumnStretch(1, 1);
    grid->setColumnStretch(3, 1);
    grid->addWidget(name_, 0, 0, 1, 4);
    grid->addWidget(verdict_, 1, 0, 1, 4);
    int cell = 0;
    for (const PlanField& field : plan_fields()) {
        const QString title = QString::fromUtf8(field.title), help = QString::fromUtf8(field.help);
        auto* label = new QLabel(title);
        label->setToolTip(help);
        QWidget* value = nullptr;
        if (field.derived) {
            auto* text = new QLabel("-");
            text->setTextInteractionFlags(Qt::TextSelectableByMouse);
            text->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
            derived_[field.key] = text;
            value = text;
        } else if (field.free) {
            auto* box = new QSpinBox;
            box->setRange(1, 1 << 30);
            box->setKeyboardTracking(false);
            connect(box, &QSpinBox::valueChanged, this, [this, key = std::string(field.key)](int number) {
                if (!filling_) workbench_.set_field(key, std::to_string(number));
            });
            numbers_[field.key] = box;
            value = box;
        } else {
            auto* box = new LazyCombo([this, key = std::string(field.key)] { fill(key); });
            connect(box, &QComboBox::activated, this, [this, box, key = std::string(field.key)] {
                if (!filling_) workbench_.set_field(key, box->currentText().toStdString());
            });
            choices_[field.key] = box;
            value = box;
        }
        value->setObjectName(field.key);
        value->setAccessibleName(title);
        value->setAccessibleDescription(help);
        value->setToolTip(help);
        label->setBuddy(value);
        grid->addWidget(label, 2 + cell / 2, cell % 2 * 2);
        grid->addWidget(value, 2 + cell / 2, cell % 2 * 2 + 1);
        ++cell;
    }
    keep_ = new QPushButton(tr("Keep"));
    keep_->setToolTip(tr("Add the edited plan to the table (Ctrl+K)."));
    revert_ = new QPushButton(tr("Revert"));
    revert_->setToolTip(tr("Back to the selected plan (Ctrl+Shift+R)."));
    auto* buttons = new QHBoxLayout;
    buttons->addStretch(1);
    buttons->addWidget(revert_);
    buttons->addWidget(keep_);
    const int row = 3 + cell / 2;
    grid->addLayout(buttons, row, 0, 1, 4);
    differences_ = new ValueTable(this);
    differences_->set_columns(figure_columns(tr("Selected"), tr("Edited")));
    table_ = new TableView(tr("Figures of the selected and the edited plan"));
    table_->show_model(differences_);
    table_->setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    grid->addWidget(table_, row + 1, 0, 1, 4);
    grid->setRowStretch(row + 2, 1);
    fill_scrolling(content);
    connect(keep_, &QPushButton::clicked, &workbench, &Workbench::keep_plan);
    connect(revert_, &QPushButton::clicked, &workbench, &Workbench::revert_plan);
    connect(&workbench, &Workbench::shown_changed, this, &PlanEditor::follow);
    follow();
}

QTableView* PlanEditor::table() const {
    return table_;
}

void PlanEditor::focus_view() {
    choices_.at("tp")->setFocus(Qt::ShortcutFocusReason);
}

void PlanEditor::changeEvent(QEvent* event) {
    Panel::changeEvent(event);
    if (event->type() == QEvent::PaletteChange && table_ != nullptr) follow();
}

void PlanEditor::fill(const std::string& key) {
    const Shown& shown = workbench_.shown();
    if (!shown.plan) return;
    QComboBox* box = choices_.at(key);
    filling_ = true;
    box->clear();
    for (const FieldValue& value : field_values(*shown.study, *shown.plan, key)) {
        box->addItem(QString::fromStdString(value.text));
        auto* model = qobject_cast<QStandardItemModel*>(box->model());
        if (value.refusal.empty() || model == nullptr) continue;
        QStandardItem* item = model->item(box->count() - 1);
        item->setEnabled(false);
        item->setToolTip(QString::fromStdString(value.refusal));
    }
    box->setCurrentText(QString::fromStdString(field_text(*shown.plan, key)));
    filling_ = false;
}

void PlanEditor::follow() {
    const Shown& shown = workbench_.shown();
    const bool any = shown.plan != nullptr;
    filling_ = true;
    for (auto& [key, box] : choices_) {
        box->setEnabled(any);
        const QString text = any ? QString::fromStdString(field_text(*shown.plan, key)) : QString();
        if (box->findText(text) < 0) {
            box->clear();
            box->addItem(text);
        }
        box->setCurrentText(text);
        QFont font = box->font();
        font.setBold(any && text.toStdString() != field_text(*shown.base, key));
        box->setFont(font);
    }
    for (auto& [key, box] : numbers_) {
        box->setEnabled(any);
        if (any) box->setValue(QString::fromStdString(field_text(*shown.plan, key)).toInt());
    }
    for (auto& [key, label] : derived_) {
        label->setText(any ? QString::fromStdString(field_text(*shown.plan, key)) : QString("-"));
        label->setToolTip(label->text());
    }
    filling_ = false;
    name_->setText(any ? QString::fromStdString(summary(*shown.plan)) : tr("No plan is selected."));
    keep_->setEnabled(shown.edited);
    revert_->setEnabled(shown.edited);
    const Tones t = tones(palette());
    QPalette colours = palette();
    colours.setColor(QPalette::WindowText, t.faint);
    for (auto& [key, label] : derived_)
        label->setPalette(colours);
    if (!any) {
        verdict_->clear();
    } else if (!shown.errors.empty()) {
        colours.setColor(QPalette::WindowText, t.bad);
        verdict_->setText(QString::fromStdString(to_string(shown.errors.front())));
    } else if (shown.report && !shown.report->fits && !shown.running) {
        colours.setColor(QPalette::WindowText, t.bad);
        verdict_->setText(tr("It does not fit into memory."));
    } else {
        verdict_->setText(shown.edited ? tr("edited") : tr("as selected"));
    }
    verdict_->setPalette(colours);
    verdict_->setVisible(any);
    const SimulationReport* after = shown.edited && !shown.running ? shown.report.get() : nullptr;
    differences_->set_rows(figure_rows(shown.base_report.get(), after));
    table_->setMinimumHeight(table_->content_height() - 10);
    table_->fit_columns(0);
}

}  // namespace tw::gui
