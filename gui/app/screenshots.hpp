// Pictures of every view, for documents and tests: works without a display (-platform offscreen).
#pragma once

#include <QString>
#include <QStringList>

namespace tw::gui {

class MainWindow;

struct ScreenshotOptions {
    QString folder;
    QStringList files;    // opened first
    QString only;         // a view's name; "": all and the whole window
    int wait_s = 120;     // for what the files start
    bool search = false;  // find plans before, where a model and a cluster are given
    int run_steps = 0;    // run the plan before (trainwright beside this program)
};

// Writes FOLDER/<view>.png of every view alone and FOLDER/window.png; returns what went wrong, or "".
// `written` gets the names.
QString write_screenshots(MainWindow& window, const ScreenshotOptions& options,
                          QStringList* written = nullptr);

}  // namespace tw::gui
