#include "gui/app/screenshots.hpp"

#include <QApplication>
#include <QDir>
#include <QElapsedTimer>
#include <QEventLoop>
#include <QImage>
#include <QPixmap>
#include <QTimer>
#include <algorithm>
#include <unordered_map>

#include "gui/app/main_window.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/widgets/panel.hpp"
#include "gui/widgets/plans_panel.hpp"
#include "gui/widgets/run_panel.hpp"
#include "gui/widgets/timeline_view.hpp"
#include "gui/widgets/trace_panels.hpp"
#include "gui/widgets/why_panel.hpp"
#include "gui/worker/plan_entry.hpp"

namespace tw::gui {
namespace {

// Runs the event loop until nothing works in the background, twice in a row: one answer may start the next
// job.
bool settle(MainWindow& window, int seconds) {
    QElapsedTimer clock;
    clock.start();
    int quiet = 0;
    while (clock.elapsed() < seconds * 1000LL) {
        QApplication::processEvents(QEventLoop::AllEvents, 20);
        const TimelineView* view = window.timeline()->view();
        const bool derived = !view->trace() || view->derived_ready();
        quiet = window.idle() && !window.run()->running() && derived ? quiet + 1 : 0;
        if (quiet >= 3) return true;
        QEventLoop loop;
        QTimer::singleShot(10, &loop, &QEventLoop::quit);
        loop.exec();
    }
    return false;
}

int distance(QRgb a, QRgb b) {
    const int r = qRed(a) - qRed(b), g = qGreen(a) - qGreen(b), d = qBlue(a) - qBlue(b);
    return r * r + g * g + d * d;
}

// At most 256 colours, those that occur most and differ from each other; a quarter of the bytes, and no
// difference to the eye: there are no photographs here.
QImage few_colours(const QImage& picture) {
    std::unordered_map<QRgb, int> counts;
    for (int y = 0; y < picture.height(); ++y) {
        const auto* line = reinterpret_cast<const QRgb*>(picture.constScanLine(y));
        for (int x = 0; x < picture.width(); ++x)
            ++counts[line[x] | 0xff000000U];
    }
    std::vector<std::pair<int, QRgb>> order;
    order.reserve(counts.size());
    for (const auto& [colour, count] : counts)
        order.emplace_back(-count, colour);
    std::ranges::sort(order);
    QList<QRgb> table;
    const auto nearest = [&](QRgb colour) {
        int best = 0;
        for (int i = 1; i < table.size(); ++i)
            if (distance(table[i], colour) < distance(table[best], colour)) best = i;
        return best;
    };
    constexpr int kApart = 100;  // squared; 10 of 256 steps in one channel
    for (const auto& [count, colour] : order) {
        if (table.size() == 256) break;
        if (table.isEmpty() || distance(table[nearest(colour)], colour) >= kApart || order.size() <= 256)
            table.append(colour);
    }
    std::unordered_map<QRgb, uchar> index;
    for (const auto& [count, colour] : order)
        index[colour] = static_cast<uchar>(nearest(colour));
    QImage small(picture.size(), QImage::Format_Indexed8);
    small.setColorTable(table);
    for (int y = 0; y < picture.height(); ++y) {
        const auto* from = reinterpret_cast<const QRgb*>(picture.constScanLine(y));
        uchar* to = small.scanLine(y);
        for (int x = 0; x < picture.width(); ++x)
            to[x] = index[from[x] | 0xff000000U];
    }
    return small;
}

// The last step as a range, on every rank's own track.
void choose_step(TimelineView& view) {
    const auto& trace = view.trace();
    if (!trace) return;
    RangeSelection range{trace->begin(), trace->end(), {}};
    const auto& ends = trace->step_ends();
    if (!ends.empty()) range.end = ends.back();
    if (ends.size() > 1) range.begin = ends[ends.size() - 2];
    for (const ModelRank& rank : trace->ranks())
        if (rank.lane_begin < rank.lane_end) range.lanes.push_back(rank.lane_begin);
    view.set_range(range);
}

bool save(const QPixmap& picture, const QString& path) {
    const QImage image = few_colours(picture.toImage().convertToFormat(QImage::Format_RGB32));
    return image.save(path, "PNG", 0);  // 0: smallest
}

// Opens, finds and runs what the pictures are of; what went wrong, or "".
QString prepare(MainWindow& window, const ScreenshotOptions& options) {
    window.show();
    if (!options.files.isEmpty()) window.open(options.files);
    if (!settle(window, options.wait_s)) return QObject::tr("still busy after %1 s").arg(options.wait_s);
    if (options.search) {
        window.workbench().start_search();
        if (!settle(window, options.wait_s))
            return QObject::tr("still searching after %1 s").arg(options.wait_s);
    }
    if (options.run_steps > 0) {
        window.run()->set_options(options.run_steps, {});
        window.run()->start();
        if (!settle(window, options.wait_s))
            return QObject::tr("still running after %1 s").arg(options.wait_s);
    }
    return {};
}

Errors refused_by(const Workbench& workbench) {
    Errors errors;
    for (const Problem& problem : workbench.problems())
        if (problem.severity == Problem::Severity::Error)
            errors.push_back({problem.code, problem.message.toStdString(), problem.where.toStdString(),
                              problem.hint.toStdString()});
    return errors;
}

// Where nobody chose, the best plan is compared with the best of another schedule.
void choose_pins(MainWindow& window) {
    const auto& plans = window.workbench().plans();
    if (window.workbench().measured().empty() && plans.size() > 1 &&
        window.workbench().pinned(1) == nullptr) {
        const PlanEntry* other = &plans[1];
        for (const PlanEntry& entry : plans)
            if (entry.feasible() && entry.plan.schedule != plans[0].plan.schedule) {
                other = &entry;
                break;
            }
        const int a = plans[0].id, b = other->id;
        window.workbench().pin(0, a);
        if (other->feasible()) window.workbench().pin(1, b);
    }
}

}  // namespace

Screenshots write_screenshots(MainWindow& window, const ScreenshotOptions& options) {
    Screenshots out;
    const QDir folder(options.folder);
    if (!folder.mkpath(".")) {
        out.wrong = QObject::tr("%1 cannot be made").arg(options.folder);
        return out;
    }
    out.wrong = prepare(window, options);
    out.refused = refused_by(window.workbench());
    if (!out.wrong.isEmpty()) return out;
    choose_pins(window);
    if (window.workbench().shown().report) window.why()->what_if(0, 2);
    const auto take = [&](const QString& name) -> QString {
        if (!settle(window, options.wait_s))
            return QObject::tr("%1: still busy after %2 s").arg(name).arg(options.wait_s);
        const QString path = folder.filePath(name + ".png");
        if (!save(window.grab(), path)) return QObject::tr("%1 cannot be written").arg(path);
        out.written.append(path);
        return {};
    };
    if (options.only.isEmpty() || options.only == "window") out.wrong = take("window");
    for (Panel* panel : window.panels()) {
        const QString name = panel->objectName();
        if (!out.wrong.isEmpty() || (!options.only.isEmpty() && options.only != name)) continue;
        // Alone there is room for the plans that cannot run, too; sums need a range.
        if (panel == window.plans()) window.plans()->set_show_infeasible(true);
        if (name == "range") choose_step(*window.timeline()->view());
        window.show_only(panel);
        out.wrong = take(name);
        if (panel == window.plans()) window.plans()->set_show_infeasible(false);
    }
    window.show_only(nullptr);
    return out;
}

}  // namespace tw::gui
