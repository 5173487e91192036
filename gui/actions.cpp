#include "gui/actions.hpp"

#include <QAction>
#include <QMenu>
#include <QWidget>
#include <algorithm>

#include "base/check.hpp"

namespace tw::gui {

const ActionInfo* find_action(std::string_view id) {
    const auto table = action_table();
    const auto found = std::ranges::find_if(table, [&](const ActionInfo& info) { return id == info.id; });
    return found == table.end() ? nullptr : &*found;
}

QList<QKeySequence> shortcuts_of(const ActionInfo& info) {
    QList<QKeySequence> keys;
    for (const QString& name : QString::fromUtf8(info.shortcuts).split('|', Qt::SkipEmptyParts))
        keys.append(QKeySequence(name, QKeySequence::PortableText));
    return keys;
}

const char* to_string(ActionContext context) {
    switch (context) {
        case ActionContext::Global:
            return "everywhere";
        case ActionContext::Timeline:
            return "timeline, memory";
        case ActionContext::Plans:
            return "plans";
        case ActionContext::Plot:
            return "plots";
    }
    return "";
}

std::string action_table_markdown() {
    std::string text = "| Menu | Action | Keys | Where | What it does |\n|---|---|---|---|---|\n";
    for (const ActionInfo& info : action_table()) {
        QStringList keys;
        for (const QKeySequence& key : shortcuts_of(info))
            keys.append("`" + key.toString(QKeySequence::PortableText) + "`");
        const QString name = QString::fromUtf8(info.text).remove('&');
        text +=
            QString("| %1 | %2 | %3 | %4 | %5 |\n")
                .arg(info.group, name, keys.join(" "), to_string(info.context), QString::fromUtf8(info.help))
                .toStdString();
    }
    return text;
}

ActionSet::ActionSet(QObject* parent) : QObject(parent) {
    for (const ActionInfo& info : action_table()) {
        auto* action = new QAction(QString::fromUtf8(info.text), this);
        action->setObjectName(QString::fromUtf8(info.id));
        action->setShortcuts(shortcuts_of(info));
        action->setShortcutContext(info.context == ActionContext::Global ? Qt::WindowShortcut
                                                                         : Qt::WidgetWithChildrenShortcut);
        action->setStatusTip(QString::fromUtf8(info.help));
        action->setToolTip(QString::fromUtf8(info.help));
        action->setCheckable(info.checkable);
        connect(action, &QAction::triggered, this, [this, &info] { trigger(info); });
        TW_CHECK_MSG(actions_.emplace(info.id, action).second, info.id);
    }
}

QAction* ActionSet::action(std::string_view id) const {
    const auto found = actions_.find(id);
    TW_CHECK_MSG(found != actions_.end(), std::string(id).c_str());
    return found->second;
}

void ActionSet::handle(std::string_view id, std::function<void()> handler) {
    TW_CHECK_MSG(find_action(id) != nullptr, std::string(id).c_str());
    handlers_[std::string(id)] = std::move(handler);
}

void ActionSet::handle(ActionContext context, Handler handler) {
    context_handlers_[context] = std::move(handler);
}

bool ActionSet::handled(std::string_view id) const {
    const ActionInfo* info = find_action(id);
    return handlers_.contains(id) || (info != nullptr && context_handlers_.contains(info->context));
}

void ActionSet::trigger(const ActionInfo& info) {
    if (const auto own = handlers_.find(std::string_view(info.id)); own != handlers_.end())
        return own->second();
    if (const auto shared = context_handlers_.find(info.context); shared != context_handlers_.end())
        shared->second(info.id);
}

void ActionSet::attach(QWidget* widget, ActionContext context) const {
    for (const ActionInfo& info : action_table())
        if (info.context == context) widget->addAction(action(info.id));
}

void ActionSet::fill_menu(QMenu* menu, std::string_view group) const {
    for (const ActionInfo& info : action_table())
        if (group == info.group) menu->addAction(action(info.id));
}

std::vector<std::string> ActionSet::groups() const {
    std::vector<std::string> groups;
    for (const ActionInfo& info : action_table())
        if (std::ranges::find(groups, info.group) == groups.end()) groups.emplace_back(info.group);
    return groups;
}

void ActionSet::set_keyboard_layout(std::string_view layout) {
    const QString places = layout == "azerty" ? "ZQSD" : layout == "dvorak" ? ",AOE" : "WASD";
    static constexpr const char* kMoves[] = {"timeline.zoom_in", "timeline.pan_left", "timeline.zoom_out",
                                             "timeline.pan_right"};
    QString freed;  // letters that the four leave, for the actions whose keys they take
    for (const QChar letter : QString("WASD"))
        if (!places.contains(letter)) freed.append(letter);
    for (const ActionInfo& info : action_table()) {
        if (info.context != ActionContext::Timeline) continue;
        QList<QKeySequence> keys = shortcuts_of(info);
        const auto* move = std::ranges::find(kMoves, std::string_view(info.id));
        if (move != std::end(kMoves)) {
            keys[0] = QKeySequence(QString(places[move - kMoves]), QKeySequence::PortableText);
        } else {
            for (QKeySequence& key : keys)
                if (key.toString().size() == 1 && places.contains(key.toString())) {
                    key = QKeySequence(QString(freed.front()), QKeySequence::PortableText);
                    freed.remove(0, 1);
                }
        }
        action(info.id)->setShortcuts(keys);
    }
}

}  // namespace tw::gui
