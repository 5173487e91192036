#include "gui/app/command_line.hpp"

#include <QCommandLineParser>
#include <charconv>

#include <fmt/format.h>

#include "base/si_format.hpp"
#include "models/load_model.hpp"
#include "plan/fix_spec.hpp"

namespace tw::gui {
namespace {

constexpr double kLeastScale = 0.25, kMostScale = 8;
constexpr int kLeastPixels = 100, kMostPixels = 8192;  // a side of the window; a picture of 67 million pixels
constexpr std::int64_t kMostSteps = 1'000'000, kMostTokens = std::int64_t{1} << 30;

class Reader {
  public:
    Result<CommandLine> read(const QStringList& arguments) {
        parser_.setApplicationDescription(
            "Explores training plans: search, timeline, memory, topology, comparison with measurements.");
        parser_.addHelpOption();
        parser_.addVersionOption();
        parser_.addPositionalArgument(
            "FILES",
            "models, clusters, plans, traces, profiles, logs, topologies, sessions; "
            "plan.json#t=12.3ms&rank=5 goes to a place",
            "[FILES…]");
        parser_.addOptions(
            {keys_, screenshot_, view_, theme_, scale_, size_, model_, cluster_, batch_, seq_, fix_, run_});
        if (!parser_.parse(arguments))
            return Error{ErrorCode::Usage, parser_.errorText().toStdString(), "", "trainwright-gui --help"};
        if (parser_.isSet("help") || parser_.isSet("help-all")) {
            line_.wants = CommandLine::Wants::Help;
            line_.help = parser_.helpText();
            return line_;
        }
        if (parser_.isSet("version") || parser_.isSet(keys_)) {
            line_.wants = parser_.isSet("version") ? CommandLine::Wants::Version : CommandLine::Wants::Keys;
            return line_;
        }
        line_.files = parser_.positionalArguments();
        read_look();
        read_pictures();
        read_setup();
        if (!errors_.empty()) return errors_;
        return line_;
    }

  private:
    static QString name(const QCommandLineOption& option) { return "--" + option.names().constFirst(); }

    void wrong(const QCommandLineOption& option, std::string message, std::string hint = {}) {
        errors_.push_back(
            {ErrorCode::Usage, std::move(message), name(option).toStdString(), std::move(hint)});
    }

    std::int64_t integer(const QCommandLineOption& option, std::int64_t high, std::int64_t fallback) {
        if (!parser_.isSet(option)) return fallback;
        const std::string text = parser_.value(option).toStdString();
        const char* const last = text.data() + text.size();
        std::int64_t value = 0;
        const auto [end, code] = std::from_chars(text.data(), last, value);
        if (code == std::errc{} && end == last && value >= 1 && value <= high) return value;
        wrong(option, fmt::format("'{}' is not a whole number from 1 to {}", text, high));
        return fallback;
    }

    // Options that do nothing unless `other` is given.
    void needs(const QCommandLineOption& option, bool met, const char* other) {
        if (parser_.isSet(option) && !met)
            wrong(option, fmt::format("does nothing without {}", other), fmt::format("add {}", other));
    }

    void read_look() {
        if (parser_.isSet(theme_)) {
            line_.theme = parser_.value(theme_);
            if (line_.theme != "light" && line_.theme != "dark" && line_.theme != "system")
                wrong(theme_, fmt::format("unknown value '{}'", line_.theme.toStdString()),
                      "light, dark or system");
        }
        std::optional<double> scale = 1;
        if (parser_.isSet(scale_)) {
            const std::string text = parser_.value(scale_).toStdString();
            scale = read_scale(text);
            if (!scale)
                wrong(scale_,
                      fmt::format("'{}' is not a number from {} to {}", text, kLeastScale, kMostScale));
        }
        if (!parser_.isSet(size_) && !parser_.isSet(screenshot_)) return;
        const QString text = parser_.value(size_);
        const QStringList sides = text.split('x');
        bool legal = sides.size() == 2;
        QSize size;
        if (legal) {
            bool is_width = false, is_height = false;
            size = QSize(sides[0].toInt(&is_width), sides[1].toInt(&is_height));
            const auto fits = [](int side) { return side >= kLeastPixels && side <= kMostPixels; };
            legal = is_width && is_height && fits(size.width()) && fits(size.height());
        }
        if (!legal)
            return wrong(size_, fmt::format("'{}' is not WIDTHxHEIGHT, each from {} to {} pixels",
                                            text.toStdString(), kLeastPixels, kMostPixels));
        if (scale && std::max(size.width(), size.height()) * *scale > kMostPixels)
            return wrong(scale_, fmt::format("{} times {} is more than {} pixels a side",
                                             format_exact(*scale), text.toStdString(), kMostPixels));
        line_.size = size;
    }

    void read_pictures() {
        const bool pictures = parser_.isSet(screenshot_);
        needs(view_, pictures, "--screenshot");
        needs(run_, pictures, "--screenshot");
        if (!pictures) return;
        line_.wants = CommandLine::Wants::Pictures;
        line_.pictures.folder = parser_.value(screenshot_);
        if (line_.pictures.folder.isEmpty()) wrong(screenshot_, "names no folder");
        line_.pictures.files = line_.files;
        line_.pictures.only = parser_.value(view_);
        if (parser_.isSet(view_) && line_.pictures.only.isEmpty()) wrong(view_, "names no view");
        line_.pictures.run_steps = static_cast<int>(integer(run_, kMostSteps, 0));
    }

    // What is asked for is read here once, so that a mistyped name is told at once.
    void read_setup() {
        const bool given = parser_.isSet(model_) || parser_.isSet(cluster_);
        for (const QCommandLineOption* option : {&batch_, &seq_, &fix_})
            needs(*option, given, "--model and --cluster");
        Setup setup;
        setup.model = parser_.value(model_).toStdString();
        setup.cluster = parser_.value(cluster_).toStdString();
        setup.fix = parser_.value(fix_).toStdString();
        setup.global_batch = integer(batch_, kMostTokens, setup.global_batch);
        setup.seq_len = integer(seq_, kMostTokens, setup.seq_len);
        if (parser_.isSet(model_)) keep(load_model(setup.model), model_);
        if (parser_.isSet(cluster_)) keep(load_cluster(setup.cluster), cluster_);
        if (parser_.isSet(fix_)) keep(parse_fix(setup.fix), fix_);
        if (!given) return;
        line_.pictures.search = !setup.model.empty() && !setup.cluster.empty();
        line_.setup = std::move(setup);
    }

    template <class T>
    void keep(const Result<T>& result, const QCommandLineOption& option) {
        if (parser_.value(option).isEmpty()) return wrong(option, "is empty", "a value, or leave it out");
        if (result) return;
        for (Error error : result.errors()) {
            const std::string wanted = name(option).toStdString();
            if (!error.context.starts_with(wanted))
                error.context = wanted + (error.context.empty() ? "" : ": " + error.context);
            errors_.push_back(std::move(error));
        }
    }

    QCommandLineParser parser_;
    const QCommandLineOption screenshot_{
        "screenshot", "Render every view to DIR/<view>.png without a display, and end.", "DIR"};
    const QCommandLineOption view_{"view", "With --screenshot: this view alone.", "NAME"};
    const QCommandLineOption theme_{"theme", "light, dark or system.", "THEME"};
    const QCommandLineOption scale_{"scale", "Scale of everything, 0.25 to 8; 2 for twice the size.",
                                    "FACTOR"};
    const QCommandLineOption size_{"size", "Size of the window in (unscaled) pixels, 100 to 8192 a side.",
                                   "WxH", "1600x900"};
    const QCommandLineOption model_{"model", "As in trainwright plan.", "MODEL"};
    const QCommandLineOption cluster_{"cluster", "As in trainwright plan.", "CLUSTER"};
    const QCommandLineOption batch_{"global-batch", "Sequences a step.", "N"};
    const QCommandLineOption seq_{"seq-len", "Tokens of a sequence.", "S"};
    const QCommandLineOption fix_{"fix", "What the plan must have.", "KEY=VALUE,…"};
    const QCommandLineOption run_{"run", "With --screenshot: run the plan for so many steps first.", "STEPS"};
    const QCommandLineOption keys_{"keys", "Print the table of actions and keys, as Markdown, and end."};
    CommandLine line_;
    Errors errors_;
};

}  // namespace

std::optional<double> read_scale(std::string_view text) {
    double scale = 0;
    const char* const last = text.data() + text.size();
    const auto [end, code] = std::from_chars(text.data(), last, scale);
    if (code != std::errc{} || end != last || !(scale >= kLeastScale && scale <= kMostScale))
        return std::nullopt;
    return scale;
}

Result<CommandLine> read_command_line(const QStringList& arguments) {
    return Reader().read(arguments);
}

}  // namespace tw::gui
