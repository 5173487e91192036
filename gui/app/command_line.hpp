// What trainwright-gui is asked for on its command line.
#pragma once

#include <QSize>
#include <QString>
#include <QStringList>
#include <optional>
#include <string_view>

#include "base/result.hpp"
#include "gui/app/screenshots.hpp"
#include "gui/worker/setup.hpp"

namespace tw::gui {

struct CommandLine {
    enum class Wants : unsigned char { Window, Pictures, Help, Version, Keys } wants = Wants::Window;
    QString help;                // the text of --help
    QString theme;               // light, dark or system; "": as the last time
    std::optional<QSize> size;   // of the window, unscaled; nothing: as the last time
    std::optional<Setup> setup;  // where a model or a cluster is given
    ScreenshotOptions pictures;
    QStringList files;

    [[nodiscard]] bool search() const { return setup && !setup->model.empty() && !setup->cluster.empty(); }
    // Nothing is asked for: the window goes on with its last session.
    [[nodiscard]] bool goes_on() const { return !setup && files.isEmpty(); }
};

// `arguments` begin with the program's name. Errors, all at once: options and values that are not legal or do
// nothing, with the option's name and the legal range; models and clusters that cannot be read. Needs a
// QCoreApplication.
Result<CommandLine> read_command_line(const QStringList& arguments);

// The factor of --scale; nothing where it is not legal.
std::optional<double> read_scale(std::string_view text);

}  // namespace tw::gui
