// trainwright-gui [FILES…]: explores plans. With --screenshot DIR it renders every view to PNG and ends.
#include <QApplication>
#include <QCommandLineParser>
#include <QSettings>
#include <algorithm>
#include <cstdio>

#include <malloc.h>

#include "base/version.hpp"
#include "gui/actions.hpp"
#include "gui/app/main_window.hpp"
#include "gui/app/screenshots.hpp"
#include "gui/widgets/theme.hpp"

namespace {

using tw::gui::Theme;

bool has_word(int argc, char** argv, const char* word) {
    for (int i = 1; i < argc; ++i)
        if (std::string_view(argv[i]).starts_with(word)) return true;
    return false;
}

// Before there is an application: pictures and answers need no display, and a scale is Qt's own business.
void prepare_environment(int argc, char** argv) {
    static constexpr const char* kWithoutDisplay[] = {"--screenshot", "--keys",    "--help",
                                                      "-h",           "--version", "-v"};
    if (std::ranges::any_of(kWithoutDisplay, [&](const char* word) { return has_word(argc, argv, word); }) &&
        qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM"))
        qputenv("QT_QPA_PLATFORM", "offscreen");
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (word == "--scale" && i + 1 < argc) qputenv("QT_SCALE_FACTOR", argv[i + 1]);
        if (word.starts_with("--scale=")) qputenv("QT_SCALE_FACTOR", QByteArray(word.substr(8).data()));
    }
}

int usage(const QString& wrong) {
    std::fprintf(stderr, "trainwright-gui: %s\n", qPrintable(wrong));
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    // As trainwright: a search allocates and frees schedules of a few hundred kilobytes thousands of times.
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    prepare_environment(argc, argv);
    QApplication application(argc, argv);
    QApplication::setOrganizationName("trainwright");
    QApplication::setApplicationName("trainwright-gui");
    QApplication::setApplicationVersion(tw::kVersion);

    QCommandLineParser parser;
    parser.setApplicationDescription(
        "Explores training plans: search, timeline, memory, topology, comparison with measurements.");
    parser.addHelpOption();
    parser.addVersionOption();
    parser.addPositionalArgument("FILES",
                                 "models, clusters, plans, traces, profiles, logs, topologies, sessions; "
                                 "plan.json#t=12.3ms&rank=5 goes to a place",
                                 "[FILES…]");
    const QCommandLineOption screenshot(
        "screenshot", "Render every view to DIR/<view>.png without a display, and end.", "DIR");
    const QCommandLineOption only("view", "With --screenshot: this view alone.", "NAME");
    const QCommandLineOption theme("theme", "light, dark or system.", "THEME");
    const QCommandLineOption scale("scale", "Scale of everything, 2 for twice the size.", "FACTOR");
    const QCommandLineOption size("size", "Size of the window in (unscaled) pixels.", "WxH", "1600x900");
    const QCommandLineOption model("model", "As in trainwright plan.", "MODEL");
    const QCommandLineOption cluster("cluster", "As in trainwright plan.", "CLUSTER");
    const QCommandLineOption batch("global-batch", "Sequences a step.", "N");
    const QCommandLineOption seq("seq-len", "Tokens of a sequence.", "S");
    const QCommandLineOption fix("fix", "What the plan must have.", "KEY=VALUE,…");
    const QCommandLineOption run("run", "With --screenshot: run the plan for so many steps first.", "STEPS");
    const QCommandLineOption keys("keys", "Print the table of actions and keys, as Markdown, and end.");
    parser.addOptions({keys, screenshot, only, theme, scale, size, model, cluster, batch, seq, fix, run});
    parser.process(application);

    if (parser.isSet(keys)) {
        std::fputs(tw::gui::action_table_markdown().c_str(), stdout);
        return 0;
    }
    const QString chosen =
        parser.isSet(theme) ? parser.value(theme) : QSettings().value("theme", "light").toString();
    if (chosen != "light" && chosen != "dark" && chosen != "system")
        return usage("--theme " + chosen + ": it is light, dark or system");
    tw::gui::apply_theme(chosen == "dark" ? Theme::Dark : chosen == "light" ? Theme::Light : Theme::System);
    QFont font = QApplication::font();
    font.setPointSizeF(9);
    QApplication::setFont(font);

    const bool pictures = parser.isSet(screenshot);
    const QStringList extent = parser.value(size).split('x');
    tw::gui::MainWindow window(/*keeps_settings=*/!pictures);
    if (extent.size() == 2 && extent[0].toInt() > 0 && extent[1].toInt() > 0) {
        if (pictures || parser.isSet(size)) window.resize(extent[0].toInt(), extent[1].toInt());
    } else {
        return usage("--size " + parser.value(size) + ": it is WIDTHxHEIGHT");
    }
    const bool search = parser.isSet(model) && parser.isSet(cluster);
    if (parser.isSet(model) || parser.isSet(cluster)) {
        tw::gui::Setup setup = window.workbench().setup();
        setup.model = parser.value(model).toStdString();
        setup.cluster = parser.value(cluster).toStdString();
        if (parser.isSet(batch)) setup.global_batch = parser.value(batch).toLongLong();
        if (parser.isSet(seq)) setup.seq_len = parser.value(seq).toLongLong();
        setup.fix = parser.value(fix).toStdString();
        window.workbench().edit_setup(setup, "Open");
    }
    if (pictures) {
        tw::gui::ScreenshotOptions options;
        options.folder = parser.value(screenshot);
        options.files = parser.positionalArguments();
        options.only = parser.value(only);
        options.search = search;
        options.run_steps = parser.value(run).toInt();
        QStringList written;
        const QString wrong = tw::gui::write_screenshots(window, options, &written);
        for (const QString& path : written)
            std::printf("%s\n", qPrintable(path));
        if (wrong.isEmpty()) return 0;
        std::fprintf(stderr, "trainwright-gui: %s\n", qPrintable(wrong));
        return 1;
    }
    window.show();
    if (!parser.positionalArguments().isEmpty()) {
        window.open(parser.positionalArguments());
    } else if (search) {
        window.workbench().start_search();
    } else {
        window.open_last_session();
    }
    return QApplication::exec();
}
