// Files in and out of a Workbench.
#include <QFile>
#include <QFileInfo>
#include <QUrlQuery>
#include <algorithm>
#include <fstream>

#include "base/json.hpp"
#include "base/si_format.hpp"
#include "gui/app/workbench.hpp"
#include "gui/view/chrome_export.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/worker/open_file.hpp"
#include "gui/worker/tasks.hpp"
#include "models/formats/foreign_hardware.hpp"
#include "models/hardware/cluster_json.hpp"

namespace tw::gui {
namespace {

struct Link {
    QString path;
    double seconds = -1;
    int rank = -1;
    QStringList wrong = {};  // parts that say neither
};

// "plan.json#t=12.3ms&rank=5"; a file whose own name has a '#' wins.
Link parse_link(const QString& text) {
    const auto hash = text.lastIndexOf('#');
    if (hash < 0 || QFile::exists(text)) return {text};
    Link link{text.left(hash)};
    const QUrlQuery query(text.mid(hash + 1));
    for (const auto& [key, value] : query.queryItems()) {
        bool known = false;
        if (key == "t") {
            const auto t = parse_duration(value.toStdString());
            known = t && *t >= 0;
            if (known) link.seconds = *t;
        } else if (key == "rank") {
            const int rank = value.toInt(&known);
            known = known && rank >= 0;
            if (known) link.rank = rank;
        }
        if (!known) link.wrong.append(value.isEmpty() ? key : key + "=" + value);
    }
    return link;
}

bool is_import(const DocumentSummary& summary) {
    for (const char* kind :
         {"nccl-tests log", "nccl-tests report", "NCCL topology", "nvidia-smi topology matrix"})
        if (summary.kind == kind) return true;
    return std::ranges::any_of(foreign_hardware_kinds(),
                               [&](const ForeignHardwareKind& kind) { return summary.kind == kind.name; });
}

}  // namespace

struct Workbench::Batch {
    int pending = 0;               // files that are still being read
    QStringList machines, traces;  // in the order in which they were read
    QStringList given;

    // What is imported together, in the order in which it was given.
    [[nodiscard]] QStringList imported() const {
        QStringList files;
        for (const QString& file : given)
            if (machines.contains(file) || traces.contains(file)) files.append(file);
        return files;
    }
};

QString Measured::name() const {
    const QString first = QFileInfo(path).fileName();
    return more.isEmpty() ? first : QObject::tr("%1 and %2 more").arg(first).arg(more.size());
}

void Workbench::open(const QStringList& paths) {
    open_stored(paths, {});
}

// `copies`: where the contents of some of them lie instead.
void Workbench::open_stored(const QStringList& paths, const std::map<QString, QString>& copies) {
    std::vector<std::string> files;
    std::map<std::string, QString> names;  // as they were given
    for (const QString& given : paths) {
        const Link link = parse_link(given);
        const QString name = QFileInfo(link.path).fileName();
        if (link.seconds >= 0 || link.rank >= 0) place_ = {link.seconds, link.rank};
        clear_problems(name);
        for (const QString& wrong : link.wrong)
            report({Problem::Severity::Warning, name, tr("'%1' of the link names no place").arg(wrong),
                    tr("for example %1#t=12.3ms&rank=5").arg(name)});
        const auto copy = copies.find(link.path);
        const QString file = copy == copies.end() ? link.path : copy->second;
        if (QFileInfo::exists(file)) {
            files.push_back(file.toStdString());
            names[files.back()] = link.path;
            continue;
        }
        report({Problem::Severity::Error,
                name,
                tr("%1 does not exist").arg(link.path),
                {},
                ErrorCode::Unreadable});
    }
    const auto batch = std::make_shared<Batch>();
    const auto groups = opened_together(files);
    batch->pending = static_cast<int>(groups.size());
    for (const std::vector<std::string>& group : groups) {
        Opening opening;
        for (const std::string& path : group) {
            opening.names.append(names[path]);
            opening.stored.append(QString::fromStdString(path));
        }
        batch->given += opening.stored;
        if (opening.stored == opening.names) opening.stored.clear();
        const QString name = QFileInfo(opening.names.front()).fileName();
        // Each has a channel of its own: several open side by side.
        const std::string channel = "open " + std::to_string(++open_jobs_);
        opening_[channel] = opening;
        jobs_.start(
            channel, tr("Opening %1").arg(name),
            [this, channel, group, opening, name, batch](JobContext& context) -> std::function<void()> {
                const auto progress = [&](double share) {
                    context.progress(share, name.toStdString());
                    return !context.cancelled();
                };
                auto opened = std::make_shared<Opened>(group.size() > 1 ? open_traces(group, progress)
                                                                        : open_file(group.front(), progress));
                return [this, channel, opening, opened, batch] {
                    opening_.erase(channel);
                    take_opened(opening, std::move(*opened), *batch);
                    if (--batch->pending > 0 || batch->machines.isEmpty()) return;
                    import_by_program(batch->imported());
                };
            });
    }
}

void Workbench::take_opened(const Opening& files, Opened opened, Batch& batch) {
    const QStringList& paths = files.names;
    const QString& path = paths.front();
    const QString name = QFileInfo(path).fileName();
    if (!opened.errors.empty()) return report(opened.errors, name);
    Setup setup = setup_;
    switch (opened.kind) {
        case OpenedKind::Plan: {
            if (setup_.model.empty()) {  // the plan's own model and cluster are what is asked for
                setup.model = opened.plan->study->document.model_name;
                const Json& document = opened.plan->study->document.model_document;
                setup.model_text = document.is_string() ? document.get<std::string>() : document.dump();
                setup.cluster = opened.plan->study->document.cluster.name;
                if (!load_cluster(setup.cluster))
                    setup.cluster_text = cluster_to_json(opened.plan->study->document.cluster).dump();
                setup.global_batch = opened.plan->plan.global_batch;
                setup.seq_len = opened.plan->plan.seq_len;
                edit_setup(setup, tr("Open %1").arg(name));
            }
            const int id = add_plan(std::move(*opened.plan));
            select(id);
            break;
        }
        case OpenedKind::Trace:
            measured_.push_back({path, opened.trace_model, opened.trace, paths.mid(1), files.stored});
            if (opened.trace_model->origin() == "PyTorch")
                batch.traces += files.stored.isEmpty() ? paths : files.stored;
            for (const std::string& warning : opened.trace_model->warnings())
                report({Problem::Severity::Warning, name, QString::fromStdString(warning), {}});
            Q_EMIT measured_changed();
            go_to_place();
            break;
        case OpenedKind::Session:
            open_session(path);
            break;
        case OpenedKind::Model:
            setup.model = path.toStdString();
            setup.model_text = std::move(opened.text);
            edit_setup(setup, tr("Model %1").arg(name));
            break;
        case OpenedKind::Cluster:
            setup.cluster = path.toStdString();
            setup.cluster_text = std::move(opened.text);
            edit_setup(setup, tr("Cluster %1").arg(name));
            break;
        case OpenedKind::Profile:
            take_document(path, std::move(opened));
            break;
        case OpenedKind::Import:
            if (is_import(opened.summary)) {
                batch.machines.append(path);  // its warnings are the import's
            } else {
                for (const std::string& warning : opened.summary.warnings)
                    report({Problem::Severity::Warning, name, QString::fromStdString(warning), {}});
            }
            take_document(path, std::move(opened));
            break;
        case OpenedKind::Unknown:
            break;
    }
    for (const QString& one : paths)
        if (files.stored.isEmpty() && !made_.contains(one)) Q_EMIT file_opened(one);
}

void Workbench::take_document(const QString& path, Opened opened) {
    if (opened.kind == OpenedKind::Profile) {
        profiles_.push_back({path, std::move(opened.profile), std::move(opened.text)});
        Q_EMIT profiles_changed();
    } else if (opened.kind == OpenedKind::Import) {
        opened.summary.facts.insert(opened.summary.facts.begin(), {"file", path.toStdString()});
        imported_.push_back({path, std::move(opened.summary), std::move(opened.text)});
        Q_EMIT imported_changed();
    }
}

void Workbench::go_to_place() {
    if (!place_) return;
    const auto [seconds, rank] = *place_;
    place_.reset();
    Q_EMIT place_requested(seconds, rank);
}

QString Workbench::write_plan(const QString& path) const {
    if (!shown_.plan) return tr("There is no plan to write.");
    const Json document = plan_document_to_json(shown_.study->with_plan(*shown_.plan));
    const Status written = write_text_file(path.toStdString(), document.dump(2) + "\n");
    return written ? QString() : QString::fromStdString(tw::to_string(written.errors()));
}

void Workbench::write_chrome_trace(const QString& path, std::shared_ptr<const TraceModel> trace,
                                   std::function<void(const QString& wrong)> done) {
    if (!trace) return done(tr("There is no trace to write."));
    // Each in a channel of its own: several files are written side by side.
    const std::string channel = "write " + path.toStdString();
    if (jobs_.busy(channel)) return done(tr("%1 is still being written").arg(path));
    jobs_.start(
        channel, tr("Writing %1").arg(QFileInfo(path).fileName()),
        [path, trace = std::move(trace), done = std::move(done)](JobContext&) -> std::function<void()> {
            std::ofstream out(path.toStdString(), std::ios::binary);
            if (out) write_chrome(*trace, out);
            out.close();
            return [done, wrong = out ? QString() : tr("%1 cannot be written").arg(path)] { done(wrong); };
        },
        /*keeps=*/true);
}

bool Workbench::empty() const {
    return setup_ == Setup() && plans_.empty() && measured_.empty() && profiles_.empty() &&
           imported_.empty() && opening_.empty();
}

}  // namespace tw::gui
