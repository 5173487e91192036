#include "gui/widgets/command_palette.hpp"

#include <QAction>
#include <QApplication>
#include <QKeyEvent>
#include <QLineEdit>
#include <QListWidget>
#include <QTextBrowser>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/actions.hpp"

namespace tw::gui {
namespace {

QString plain(const char* text) {
    return QString::fromUtf8(text).remove('&');
}

QString keys_of(const QAction& action) {
    QStringList names;
    for (const QKeySequence& key : action.shortcuts())
        names.append(key.toString(QKeySequence::NativeText));
    return names.join(", ");
}

// Letters in their order; early and adjacent ones count more. Negative: they do not all occur.
int match(const QString& text, const QString& letters) {
    int score = 0;
    qsizetype at = 0, last = -2;
    for (const QChar letter : letters) {
        if (letter.isSpace()) continue;
        at = text.indexOf(letter, at, Qt::CaseInsensitive);
        if (at < 0) return -1;
        const bool begins = at == 0 || !text[at - 1].isLetter();
        score += 1 + (at == last + 1 ? 4 : 0) + (begins ? 6 : 0);
        last = at++;
    }
    return score * 100 - static_cast<int>(text.size());
}

}  // namespace

CommandPalette::CommandPalette(const ActionSet& actions, QWidget* window)
    : QFrame(window), actions_(actions) {
    setObjectName("palette");
    setFrameShape(StyledPanel);
    setAutoFillBackground(true);
    setAccessibleName(tr("Command palette"));
    text_ = new QLineEdit;
    text_->setAccessibleName(tr("Letters of an action's name"));
    text_->setPlaceholderText(tr("letters of an action"));
    list_ = new QListWidget;
    list_->setFocusPolicy(Qt::NoFocus);
    list_->setFrameShape(NoFrame);
    list_->setUniformItemSizes(true);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(6, 6, 6, 6);
    layout->addWidget(text_);
    layout->addWidget(list_);
    text_->installEventFilter(this);
    connect(text_, &QLineEdit::textChanged, this, &CommandPalette::filter);
    connect(list_, &QListWidget::itemClicked, this, &CommandPalette::run);
    hide();
}

void CommandPalette::open() {
    before_ = QApplication::focusWidget();
    const QWidget* window = parentWidget();
    const int width = std::min(620, window->width() - 40), height = std::min(440, window->height() - 80);
    setGeometry((window->width() - width) / 2, 48, width, height);
    text_->clear();
    filter();
    show();
    raise();
    text_->setFocus();
}

void CommandPalette::type(const QString& text) {
    text_->setText(text);
}

QStringList CommandPalette::shown_ids() const {
    QStringList ids;
    for (int i = 0; i < list_->count(); ++i)
        ids.append(list_->item(i)->data(Qt::UserRole).toString());
    return ids;
}

void CommandPalette::filter() {
    std::vector<std::pair<int, const ActionInfo*>> found;
    for (const ActionInfo& info : action_table()) {
        const int score = match(QString("%1: %2").arg(info.group, plain(info.text)), text_->text());
        if (score >= 0 || text_->text().isEmpty()) found.emplace_back(-score, &info);
    }
    if (!text_->text().isEmpty())
        std::ranges::stable_sort(found, {}, [](const auto& pair) { return pair.first; });
    list_->clear();
    for (const auto& [score, info] : found) {
        const QAction* action = actions_.action(info->id);
        const QString keys = keys_of(*action);
        auto* item = new QListWidgetItem(
            QString("%1: %2%3")
                .arg(info->group, plain(info->text), keys.isEmpty() ? QString() : "    " + keys));
        item->setData(Qt::UserRole, QString(info->id));
        item->setToolTip(QString::fromUtf8(info->help));
        list_->addItem(item);
    }
    list_->setCurrentRow(0);
}

void CommandPalette::run() {
    const QListWidgetItem* item = list_->currentItem();
    hide();
    if (before_ != nullptr) before_->setFocus();
    if (item != nullptr) actions_.action(item->data(Qt::UserRole).toString().toStdString())->trigger();
}

bool CommandPalette::eventFilter(QObject* watched, QEvent* event) {
    if (watched == text_ && event->type() == QEvent::FocusOut) hide();
    if (watched != text_ || event->type() != QEvent::KeyPress) return QFrame::eventFilter(watched, event);
    switch (static_cast<QKeyEvent*>(event)->key()) {
        case Qt::Key_Down:
            list_->setCurrentRow(std::min(list_->currentRow() + 1, list_->count() - 1));
            return true;
        case Qt::Key_Up:
            list_->setCurrentRow(std::max(list_->currentRow() - 1, 0));
            return true;
        case Qt::Key_Return:
        case Qt::Key_Enter:
            run();
            return true;
        case Qt::Key_Escape:
            hide();
            if (before_ != nullptr) before_->setFocus();
            return true;
        default:
            return false;
    }
}

QString key_sheet(const ActionSet& actions) {
    QString html = "<table cellspacing='0' cellpadding='2'><tr>";
    int column = 0, rows = 0;
    html += "<td valign='top'><table cellspacing='0' cellpadding='1'>";
    constexpr int kRowsAColumn = 34;
    for (const std::string& group : actions.groups()) {
        for (const ActionInfo& info : action_table()) {
            if (group != info.group) continue;
            const bool first =
                rows == 0 || &info == &*std::ranges::find_if(action_table(), [&](const ActionInfo& i) {
                    return group == i.group;
                });
            if (rows >= kRowsAColumn) {
                html +=
                    "</table></td><td>&nbsp;&nbsp;&nbsp;</td><td valign='top'><table cellspacing='0' "
                    "cellpadding='1'>";
                rows = 0;
                ++column;
            }
            if (first) {
                html += QString("<tr><td colspan='3'><b>%1</b></td></tr>").arg(QString::fromStdString(group));
                ++rows;
            }
            html +=
                QString("<tr><td><code>%1</code></td><td>&nbsp;</td><td>%2</td></tr>")
                    .arg(keys_of(*actions.action(info.id)).toHtmlEscaped(), plain(info.text).toHtmlEscaped());
            ++rows;
        }
    }
    return html + "</table></td></tr></table>";
}

KeySheet::KeySheet(const ActionSet& actions, QWidget* window) : QFrame(window), actions_(actions) {
    setObjectName("keys");
    setFrameShape(StyledPanel);
    setAutoFillBackground(true);
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("Keys"));
    text_ = new QTextBrowser;
    text_->setFrameShape(NoFrame);
    text_->setFocusPolicy(Qt::NoFocus);
    text_->viewport()->setAttribute(Qt::WA_TransparentForMouseEvents);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(10, 8, 10, 8);
    layout->addWidget(text_);
    hide();
}

void KeySheet::toggle() {
    if (isVisible()) return hide();
    const QWidget* window = parentWidget();
    setGeometry(window->rect().adjusted(30, 40, -30, -30));
    text_->setHtml(key_sheet(actions_));
    show();
    raise();
    setFocus();
}

void KeySheet::keyPressEvent(QKeyEvent*) {
    hide();
}

void KeySheet::mousePressEvent(QMouseEvent*) {
    hide();
}

void KeySheet::focusOutEvent(QFocusEvent*) {
    hide();
}

}  // namespace tw::gui
