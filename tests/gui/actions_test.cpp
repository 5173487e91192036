// The action table is consistent: ids and keys are unambiguous, and every row says what it does.
#include "gui/actions.hpp"

#include <QAction>
#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

namespace tw::gui {
namespace {

TEST(Actions, IdsAreUniqueAndRowsAreComplete) {
    std::set<std::string> ids;
    for (const ActionInfo& info : action_table()) {
        EXPECT_TRUE(ids.insert(info.id).second) << info.id;
        EXPECT_STRNE(info.text, "") << info.id;
        EXPECT_STRNE(info.help, "") << info.id;
        EXPECT_EQ(std::string(info.help).back(), '.') << info.id;
        EXPECT_STRNE(info.group, "") << info.id;
    }
}

TEST(Actions, NoKeyMeansTwoThingsInOneContext) {
    std::map<std::pair<ActionContext, QString>, std::string> owner;
    std::map<QString, std::string> global;
    for (const ActionInfo& info : action_table())
        for (const QKeySequence& key : shortcuts_of(info)) {
            ASSERT_EQ(key.count(), 1) << info.id << " " << info.shortcuts;
            ASSERT_NE(key[0].key(), Qt::Key_unknown) << info.id << " " << info.shortcuts;
            const auto [at, fresh] = owner.emplace(std::pair{info.context, key.toString()}, info.id);
            EXPECT_TRUE(fresh) << key.toString().toStdString() << ": " << at->second << " and " << info.id;
            if (info.context == ActionContext::Global) global.emplace(key.toString(), info.id);
        }
    // A global key would be ambiguous wherever a context also uses it.
    for (const auto& [place, id] : owner) {
        if (place.first == ActionContext::Global) continue;
        EXPECT_FALSE(global.contains(place.second)) << place.second.toStdString() << ": " << id;
    }
}

TEST(Actions, TheDocumentListsEachAsItIs) {
    std::ifstream file(TW_SOURCE_DIR "/docs/gui.md");
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_NE(text.str().find(action_table_markdown()), std::string::npos)
        << "docs/gui.md: its table of actions is what trainwright-gui --keys prints";
}

TEST(Actions, TriggeringCallsTheHandlerOfTheIdElseOfTheContext) {
    ActionSet actions;
    std::string last;
    actions.handle(ActionContext::Timeline, [&](std::string_view id) { last = id; });
    actions.handle("timeline.pin", [&] { last = "own"; });
    actions.action("timeline.zoom_in")->trigger();
    EXPECT_EQ(last, "timeline.zoom_in");
    actions.action("timeline.pin")->trigger();
    EXPECT_EQ(last, "own");
    EXPECT_TRUE(actions.handled("timeline.mark"));
    EXPECT_FALSE(actions.handled("file.open"));
}

TEST(Actions, EveryKeyboardLayoutLeavesNoKeyAmbiguous) {
    for (const char* layout : {"azerty", "dvorak", "qwerty"}) {
        ActionSet actions;
        actions.set_keyboard_layout(layout);
        std::map<QString, std::string> owner;
        for (const ActionInfo& info : action_table()) {
            if (info.context != ActionContext::Timeline) continue;
            for (const QKeySequence& key : actions.action(info.id)->shortcuts()) {
                const auto [at, fresh] = owner.emplace(key.toString(), info.id);
                EXPECT_TRUE(fresh) << layout << ": " << key.toString().toStdString() << ": " << at->second
                                   << " and " << info.id;
            }
        }
        if (std::string_view(layout) != "azerty") continue;
        EXPECT_EQ(owner["Z"], "timeline.zoom_in");
        EXPECT_EQ(owner["Q"], "timeline.pan_left");
    }
}

}  // namespace
}  // namespace tw::gui
