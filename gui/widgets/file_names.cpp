#include "gui/widgets/file_names.hpp"

#include <QDir>
#include <QFileDialog>

namespace tw::gui {
namespace {

FileAnswer answer_instead;

}  // namespace

void answer_file_names(FileAnswer answer) {
    answer_instead = std::move(answer);
}

QString ask_save_name(QWidget* parent, const QString& title, const QString& suggested,
                      const QString& filter) {
    if (answer_instead) return answer_instead(true, title);
    return QFileDialog::getSaveFileName(parent, title, suggested, filter);
}

QStringList ask_open_names(QWidget* parent, const QString& title) {
    if (answer_instead) {
        const QString name = answer_instead(false, title);
        return name.isEmpty() ? QStringList() : QStringList(name);
    }
    return QFileDialog::getOpenFileNames(parent, title);
}

QString state_folder() {
    QString base = qEnvironmentVariable("XDG_STATE_HOME");
    if (base.isEmpty()) base = QDir::home().filePath(".local/state");
    const QDir folder(QDir(base).filePath("trainwright"));
    folder.mkpath(".");
    return folder.path();
}

}  // namespace tw::gui
