// The action table: everything that a user can do, once. Menus, shortcuts, the sheet of keys, the command
// palette, docs/gui.md and tests/gui are made from it.
//
// A view handles the actions of its context by `bool perform(std::string_view id)`: false where it does not
// know the id. Whether an action applies just now is the view's to say (`perform` of one that does not apply
// changes nothing).
#pragma once

#include <QKeySequence>
#include <QObject>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

class QAction;
class QMenu;
class QWidget;

namespace tw::gui {

// Where a shortcut works: everywhere in the window, or while the focus is inside a view of that kind.
// Contexts other than Global may use single keys.
enum class ActionContext : unsigned char { Global, Timeline, Plans, Plot };

struct ActionInfo {
    const char* id;         // "timeline.zoom_in": stable, used by sessions and tests
    const char* text;       // as in a menu, with its mnemonic
    const char* help;       // one sentence
    const char* shortcuts;  // portable names, separated by '|'; the first is shown; may be empty
    ActionContext context;
    const char* group;       // the menu
    bool checkable = false;  // a state that is on or off
};

std::span<const ActionInfo> action_table();
const ActionInfo* find_action(std::string_view id);  // null where there is none
QList<QKeySequence> shortcuts_of(const ActionInfo& info);
const char* to_string(ActionContext context);
// The table as Markdown, by menu: what docs/gui.md holds.
std::string action_table_markdown();

// The table as QActions of one window. Triggering one calls the handler of its id, else that of its context.
class ActionSet : public QObject {
  public:
    using Handler = std::function<void(std::string_view id)>;

    explicit ActionSet(QObject* parent = nullptr);

    // CHECK where the id is not in the table.
    [[nodiscard]] QAction* action(std::string_view id) const;
    void handle(std::string_view id, std::function<void()> handler);
    void handle(ActionContext context, Handler handler);
    // True where some handler would be called.
    [[nodiscard]] bool handled(std::string_view id) const;
    // Makes the context's shortcuts work while the focus is in `widget` or below it.
    void attach(QWidget* widget, ActionContext context) const;
    // Appends every action of a group, in the table's order.
    void fill_menu(QMenu* menu, std::string_view group) const;
    [[nodiscard]] std::vector<std::string> groups() const;  // in the table's order

    // WASD as the letters at those places of the keyboard: "qwerty", "azerty" (ZQSD), "dvorak" (,AOE).
    void set_keyboard_layout(std::string_view layout);

  private:
    void trigger(const ActionInfo& info);

    std::map<std::string, QAction*, std::less<>> actions_;
    std::map<std::string, std::function<void()>, std::less<>> handlers_;
    std::map<ActionContext, Handler> context_handlers_;
};

}  // namespace tw::gui
