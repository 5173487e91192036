#include "gui/widgets/prompt_bar.hpp"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QVBoxLayout>

#include "gui/widgets/theme.hpp"

namespace tw::gui {

PromptBar::PromptBar(QWidget* parent) : QFrame(parent) {
    setFrameShape(QFrame::StyledPanel);
    setAutoFillBackground(true);
    label_ = new QLabel(this);
    line_ = new QLineEdit(this);
    status_ = new QLabel(this);
    list_ = new QListWidget(this);
    label_->setBuddy(line_);
    list_->setFocusPolicy(Qt::NoFocus);
    list_->setAccessibleName(tr("Matches"));
    auto* const row = new QHBoxLayout;
    row->addWidget(label_);
    row->addWidget(line_, 1);
    row->addWidget(status_);
    auto* const column = new QVBoxLayout(this);
    column->setContentsMargins(8, 5, 8, 5);
    column->addLayout(row);
    column->addWidget(list_);
    line_->installEventFilter(this);
    connect(line_, &QLineEdit::textChanged, this, [this](const QString& text) {
        if (handlers_.changed) handlers_.changed(text);
    });
    connect(list_, &QListWidget::itemClicked, this, [this] { accept(false); });
    hide();
}

void PromptBar::open(const QString& label, const QString& text, const QString& placeholder,
                     Handlers handlers) {
    handlers_ = {};
    label_->setText(label);
    line_->setAccessibleName(label);
    line_->setPlaceholderText(placeholder);
    line_->setText(text);
    line_->selectAll();
    set_status({});
    list_->setVisible(handlers.list);
    list_->clear();
    handlers_ = std::move(handlers);
    show();
    raise();
    place(area_);
    line_->setFocus(Qt::ShortcutFocusReason);
    if (handlers_.changed) handlers_.changed(text);
}

void PromptBar::close_prompt(bool cancelled) {
    if (!isVisibleTo(parentWidget())) return;
    const auto closed = handlers_.closed;
    const bool had_focus = window()->focusWidget() == line_;
    handlers_ = {};
    hide();
    if (had_focus && parentWidget() != nullptr) parentWidget()->setFocus(Qt::OtherFocusReason);
    if (cancelled && closed) closed();
}

void PromptBar::refresh() {
    if (isVisibleTo(parentWidget()) && handlers_.changed) handlers_.changed(line_->text());
}

void PromptBar::set_status(const QString& text, bool problem) {
    status_->setText(text);
    QPalette palette = this->palette();
    if (problem) palette.setColor(QPalette::WindowText, tones(palette).bad);
    status_->setPalette(palette);
    status_->setVisible(!text.isEmpty());
}

void PromptBar::set_choices(const QStringList& choices) {
    list_->clear();
    list_->addItems(choices);
    if (!choices.isEmpty()) list_->setCurrentRow(0);
    place(area_);
}

void PromptBar::place(const QRect& area) {
    area_ = area;
    const int width = std::min(area.width() - 16, 520);
    int height = 20 + line_->sizeHint().height();
    if (list_->isVisibleTo(this)) height += std::min(area.height() - height - 16, 240);
    setGeometry(area.right() - width - 8, area.top() + 4, std::max(width, 80), height);
}

void PromptBar::accept(bool backwards) {
    const Handlers handlers = handlers_;
    const QString text = line_->text();
    const int row = list_->currentRow();
    if (!handlers.stays) close_prompt(false);
    if (handlers.list) {
        if (row >= 0 && handlers.chosen) handlers.chosen(row);
    } else if (handlers.accepted) {
        handlers.accepted(text, backwards);
    }
}

bool PromptBar::eventFilter(QObject* object, QEvent* event) {
    // Every key belongs to the line while it is open: "w" is a letter here.
    if (event->type() == QEvent::ShortcutOverride) {
        event->accept();
        return true;
    }
    if (event->type() != QEvent::KeyPress) return QFrame::eventFilter(object, event);
    auto* const key = static_cast<QKeyEvent*>(event);
    switch (key->key()) {
        case Qt::Key_Return:
        case Qt::Key_Enter:
            accept((key->modifiers() & Qt::ShiftModifier) != 0);
            return true;
        case Qt::Key_Escape:
            close_prompt(true);
            return true;
        case Qt::Key_Down:
        case Qt::Key_Up: {
            if (!handlers_.list || list_->count() == 0) return false;
            const int by = key->key() == Qt::Key_Down ? 1 : list_->count() - 1;
            list_->setCurrentRow((std::max(0, list_->currentRow()) + by) % list_->count());
            return true;
        }
        default:
            return false;
    }
}

}  // namespace tw::gui
