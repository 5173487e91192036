// Pictures of every view, for documents and tests: works without a display (-platform offscreen).
#pragma once

#include <QString>
#include <QStringList>

#include "base/result.hpp"

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

struct Screenshots {
    QStringList written;
    QString wrong;   // why there are no more of them; "": these are all
    Errors refused;  // what could not be opened, found or run; the pictures show the rest
};

// Writes FOLDER/<view>.png of every view alone and FOLDER/window.png.
Screenshots write_screenshots(MainWindow& window, const ScreenshotOptions& options);

}  // namespace tw::gui
