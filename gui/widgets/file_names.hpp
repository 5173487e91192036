// Asking for names of files, in one place, so that tests answer instead of a person.
#pragma once

#include <QString>
#include <QStringList>
#include <functional>

class QWidget;

namespace tw::gui {

// "" where the person thought better of it.
QString ask_save_name(QWidget* parent, const QString& title, const QString& suggested, const QString& filter);
QStringList ask_open_names(QWidget* parent, const QString& title);

// Answers for both from now on; an empty function asks people again. `saving` tells which.
using FileAnswer = std::function<QString(bool saving, const QString& title)>;
void answer_file_names(FileAnswer answer);

// Where logs, traces and the last session are kept: $XDG_STATE_HOME/trainwright, made where it is missing.
QString state_folder();

}  // namespace tw::gui
