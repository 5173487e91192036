// trainwright-gui [FILES…]: explores plans. With --screenshot DIR it renders every view to PNG and ends.
#include <QApplication>
#include <QSettings>
#include <algorithm>
#include <cstdio>

#include <malloc.h>

#include "base/nearest.hpp"
#include "base/version.hpp"
#include "gui/actions.hpp"
#include "gui/app/command_line.hpp"
#include "gui/app/main_window.hpp"
#include "gui/app/screenshots.hpp"
#include "gui/widgets/panel.hpp"
#include "gui/widgets/theme.hpp"

namespace {

using tw::gui::CommandLine;
using tw::gui::Theme;

bool has_word(int argc, char** argv, const char* word) {
    for (int i = 1; i < argc; ++i)
        if (std::string_view(argv[i]).starts_with(word)) return true;
    return false;
}

// Before there is an application: pictures and answers need no display, and a scale is Qt's own business. One
// that is not legal Qt would not survive; it is refused below.
void prepare_environment(int argc, char** argv) {
    static constexpr const char* kWithoutDisplay[] = {"--screenshot", "--keys",    "--help",
                                                      "-h",           "--version", "-v"};
    if (std::ranges::any_of(kWithoutDisplay, [&](const char* word) { return has_word(argc, argv, word); }) &&
        qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM"))
        qputenv("QT_QPA_PLATFORM", "offscreen");
    const auto scale = [](std::string_view text) {
        if (tw::gui::read_scale(text))
            qputenv("QT_SCALE_FACTOR", QByteArray(text.data(), static_cast<qsizetype>(text.size())));
    };
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (word == "--scale" && i + 1 < argc) scale(argv[i + 1]);
        if (word.starts_with("--scale=")) scale(word.substr(8));
    }
}

// Without a display Qt ends the process before anything can be said: the command line is then read without
// one, and a window is refused. Whether that is so.
bool lacks_display(int argc, char** argv) {
    for (const char* variable : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"})
        if (!qEnvironmentVariableIsEmpty(variable)) return false;
    if (has_word(argc, argv, "-platform") || has_word(argc, argv, "--platform")) return false;
    qputenv("QT_QPA_PLATFORM", "offscreen");
    return true;
}

int fail(const tw::Errors& errors) {
    for (const tw::Error& error : errors)
        std::fprintf(stderr, "trainwright-gui: %s\n", tw::to_string(error).c_str());
    return tw::exit_code(errors);
}

tw::Errors check_view(const tw::gui::MainWindow& window, const QString& view) {
    if (view.isEmpty() || view == "window" || window.panel(view) != nullptr) return {};
    std::vector<std::string> names = {"window"};
    for (const tw::gui::Panel* panel : window.panels())
        names.push_back(panel->objectName().toStdString());
    return {{tw::ErrorCode::Usage, "'" + view.toStdString() + "' is no view", "--view",
             tw::unknown_name_hint(view.toStdString(), names)}};
}

// A picture of what could be read is taken in any case; what could not be is told afterwards.
int take_pictures(tw::gui::MainWindow& window, const CommandLine& line) {
    const tw::gui::Screenshots taken = tw::gui::write_screenshots(window, line.pictures);
    for (const QString& path : taken.written)
        std::printf("%s\n", qPrintable(path));
    tw::Errors errors = taken.refused;
    if (!taken.wrong.isEmpty()) errors.push_back({tw::ErrorCode::Failure, taken.wrong.toStdString(), "", ""});
    return errors.empty() ? 0 : fail(errors);
}

}  // namespace

int main(int argc, char** argv) {
    // As trainwright: a search allocates and frees schedules of a few hundred kilobytes thousands of times.
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    prepare_environment(argc, argv);
    const bool no_display = lacks_display(argc, argv);
    QApplication application(argc, argv);
    QApplication::setOrganizationName("trainwright");
    QApplication::setApplicationName("trainwright-gui");
    QApplication::setApplicationVersion(tw::kVersion);

    const tw::Result<CommandLine> line = tw::gui::read_command_line(QApplication::arguments());
    if (!line) return fail(line.errors());
    if (line->wants == CommandLine::Wants::Help) {
        std::fputs(qPrintable(line->help), stdout);
        return 0;
    }
    if (line->wants == CommandLine::Wants::Version) {
        std::printf("trainwright-gui %s\n", tw::kVersion);
        return 0;
    }
    if (line->wants == CommandLine::Wants::Keys) {
        std::fputs(tw::gui::action_table_markdown().c_str(), stdout);
        return 0;
    }
    if (no_display)
        return fail(
            {{tw::ErrorCode::Failure, "there is no display: neither DISPLAY nor WAYLAND_DISPLAY is set", "",
              "--screenshot DIR draws every view without one"}});
    const QString theme =
        line->theme.isEmpty() ? QSettings().value("theme", "light").toString() : line->theme;
    tw::gui::apply_theme(theme == "dark" ? Theme::Dark : theme == "system" ? Theme::System : Theme::Light);
    QFont font = QApplication::font();
    font.setPointSizeF(9);
    QApplication::setFont(font);

    const bool pictures = line->wants == CommandLine::Wants::Pictures;
    tw::gui::MainWindow window(/*keeps_settings=*/!pictures);
    if (const tw::Errors errors = check_view(window, line->pictures.only); !errors.empty())
        return fail(errors);
    if (line->size) window.resize(*line->size);
    if (line->setup) window.workbench().edit_setup(*line->setup, "Open");
    if (pictures) return take_pictures(window, *line);
    window.show();
    if (!line->files.isEmpty()) {
        window.open(line->files);
    } else if (line->search()) {
        window.workbench().start_search();
    } else if (line->goes_on()) {
        window.open_last_session();
    }
    return QApplication::exec();
}
