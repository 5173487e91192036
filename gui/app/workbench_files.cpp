// Files in and out of a Workbench.
#include <QFile>
#include <QFileInfo>
#include <QUrlQuery>
#include <algorithm>
#include <fstream>

#include "base/json.hpp"
#include "base/si_format.hpp"
#include "gui/app/session_json.hpp"
#include "gui/app/workbench.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/worker/open_file.hpp"
#include "gui/worker/tasks.hpp"
#include "models/formats/foreign_hardware.hpp"
#include "models/hardware/cluster_json.hpp"
#include "plan/trace/chrome.hpp"

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
    std::vector<std::string> files;
    for (const QString& given : paths) {
        const Link link = parse_link(given);
        const QString name = QFileInfo(link.path).fileName();
        if (link.seconds >= 0 || link.rank >= 0) place_ = {link.seconds, link.rank};
        clear_problems(name);
        for (const QString& wrong : link.wrong)
            report({Problem::Severity::Warning, name, tr("'%1' of the link names no place").arg(wrong),
                    tr("for example %1#t=12.3ms&rank=5").arg(name)});
        if (QFileInfo::exists(link.path)) {
            files.push_back(link.path.toStdString());
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
        QStringList names;
        for (const std::string& path : group)
            names.append(QString::fromStdString(path));
        batch->given += names;
        const QString name = QFileInfo(names.front()).fileName();
        // Each has a channel of its own: several open side by side.
        const std::string channel = "open " + std::to_string(++open_jobs_);
        opening_[channel] = names;
        jobs_.start(channel, tr("Opening %1").arg(name),
                    [this, channel, group, names, name, batch](JobContext& context) -> std::function<void()> {
                        const auto progress = [&](double share) {
                            context.progress(share, name.toStdString());
                            return !context.cancelled();
                        };
                        auto opened =
                            std::make_shared<Opened>(group.size() > 1 ? open_traces(group, progress)
                                                                      : open_file(group.front(), progress));
                        return [this, channel, names, opened, batch] {
                            opening_.erase(channel);
                            take_opened(names, std::move(*opened), *batch);
                            if (--batch->pending > 0 || batch->machines.isEmpty()) return;
                            import_by_program(batch->imported());
                        };
                    });
    }
}

void Workbench::take_opened(const QStringList& paths, Opened opened, Batch& batch) {
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
            measured_.push_back({path, opened.trace_model, opened.trace, paths.mid(1)});
            if (opened.trace_model->origin() == "PyTorch") batch.traces += paths;
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
        if (!made_.contains(one)) Q_EMIT file_opened(one);
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

QString Workbench::write_chrome_trace(const QString& path) const {
    if (!shown_.report) return tr("There is no simulated plan to write the trace of.");
    std::ofstream out(path.toStdString(), std::ios::binary);
    if (out) write_chrome_trace_to(out);
    if (!out) return tr("%1 cannot be written").arg(path);
    return {};
}

void Workbench::write_chrome_trace_to(std::ostream& out) const {
    tw::write_chrome_trace(shown_.report->trace, out);
}

// --- sessions

bool Workbench::empty() const {
    return setup_ == Setup() && plans_.empty() && measured_.empty() && profiles_.empty() &&
           imported_.empty() && opening_.empty();
}

QString Workbench::save_session(const QString& path, const WindowState& state) {
    const QString wrong = write_session(path, state);
    if (!wrong.isEmpty()) return wrong;
    session_path_ = path;
    return {};
}

QString Workbench::write_session(const QString& path, const WindowState& state) const {
    Session session;
    session.setup = setup_;
    session.plans = plans_;
    const auto position = [&](int id) {
        for (std::size_t i = 0; i < plans_.size(); ++i)
            if (plans_[i].id == id) return static_cast<int>(i) + 1;
        return 0;
    };
    session.selected = position(shown_.id);
    if (shown_.edited) session.edited = *shown_.plan;
    for (std::size_t side = 0; side < 2; ++side)
        session.pins[side] = position(pins_[side]);
    for (const Measured& measured : measured_) {
        session.measured.push_back({measured.path.toStdString(), measured.trace});
        for (const QString& other : measured.more)
            session.measured.push_back({other.toStdString(), nullptr});
    }
    for (const OpenedProfile& profile : profiles_)
        session.files.push_back({profile.path.toStdString(), profile.text});
    for (const Imported& imported : imported_)
        session.files.push_back({imported.path.toStdString(), imported.text});
    for (const auto& [channel, files] : opening_)
        for (const QString& file : files)
            session.files.push_back({file.toStdString(), {}});
    session.layout_base64 = state.layout.toBase64().toStdString();
    session.theme = state.theme.toStdString();
    session.timeline = state.timeline.toStdString();
    const Status written = write_text_file(path.toStdString(), session_to_text(session));
    return written ? QString() : QString::fromStdString(tw::to_string(written.errors()));
}

void Workbench::open_session(const QString& path, bool named) {
    const QString name = QFileInfo(path).fileName();
    jobs_.start("session", tr("Opening session %1").arg(name),
                [this, path, name, named](JobContext&) -> std::function<void()> {
                    const auto text = read_text_file(path.toStdString());
                    auto read =
                        text ? session_from_text(*text, name.toStdString()) : Result<Session>(text.errors());
                    if (!read) return [this, name, errors = read.errors()] { report(errors, name); };
                    auto session = std::make_shared<Session>(std::move(*read));
                    auto documents = std::make_shared<std::vector<Opened>>();
                    for (const SessionFile& file : session->files)
                        documents->push_back(file.text.empty() ? Opened() : open_text(file.text, file.path));
                    return [this, path = named ? path : QString(), session, documents] {
                        take_session(path, *session, std::move(*documents));
                    };
                });
}

void Workbench::take_session(const QString& path, const Session& session, std::vector<Opened> documents) {
    // What is under way is of the session before.
    shown_ = {};
    for (const char* channel : {"study", "search", "simulate", "explain", "compare", "what if"})
        jobs_.drop(channel);
    search_when_ready_ = false;
    search_text_.clear();
    previous_.clear();
    what_if_ = nullptr;
    what_if_text_.clear();
    study_ = nullptr;
    setup_errors_.clear();
    undo_.clear();
    const int first = next_id_;
    plans_ = session.plans;
    for (PlanEntry& entry : plans_)
        entry.id = next_id_++;
    const auto id_of = [&](int position) { return position > 0 ? first + position - 1 : 0; };
    pins_ = {id_of(session.pins[0]), id_of(session.pins[1])};
    setup_ = session.setup;
    measured_.clear();
    profiles_.clear();
    imported_.clear();
    QStringList elsewhere;  // files that are only named
    for (const SessionTrace& measured : session.measured) {
        const QString trace_path = QString::fromStdString(measured.path);
        if (measured.trace) {
            measured_.push_back({trace_path, make_trace_model(measured.trace), measured.trace, {}});
        } else {
            elsewhere.append(trace_path);
        }
    }
    session_path_ = path;
    Q_EMIT setup_changed();
    Q_EMIT study_changed();
    Q_EMIT search_changed();
    Q_EMIT what_if_changed();
    tell_plans();
    Q_EMIT pins_changed();
    Q_EMIT measured_changed();
    Q_EMIT profiles_changed();
    Q_EMIT imported_changed();
    for (std::size_t i = 0; i < documents.size(); ++i) {
        const QString file = QString::fromStdString(session.files[i].path);
        report(documents[i].errors, QFileInfo(file).fileName());
        if (session.files[i].text.empty()) elsewhere.append(file);
        if (documents[i].errors.empty()) take_document(file, std::move(documents[i]));
    }
    make_study_of_setup();
    if (const PlanEntry* entry = plan(id_of(session.selected))) {
        const auto base = std::make_shared<const ParallelPlan>(entry->plan);
        const auto edited = session.edited ? std::make_shared<const ParallelPlan>(*session.edited) : base;
        show_plan(entry->id, edited, base);
    } else {
        Q_EMIT shown_changed();
    }
    WindowState state;
    state.layout = QByteArray::fromBase64(QByteArray::fromStdString(session.layout_base64));
    state.theme = QString::fromStdString(session.theme);
    state.timeline = QByteArray::fromStdString(session.timeline);
    Q_EMIT window_state_opened(state);
    if (!elsewhere.isEmpty()) open(elsewhere);
}

}  // namespace tw::gui
