// Sessions: everything that is open in one document, and back.
#include <QDir>
#include <QFileInfo>

#include "base/json.hpp"
#include "gui/app/session_json.hpp"
#include "gui/app/workbench.hpp"
#include "gui/view/trace_model.hpp"
#include "gui/worker/open_file.hpp"
#include "gui/worker/packed_file.hpp"
#include "gui/worker/tasks.hpp"

namespace tw::gui {
namespace {

// Text of all packed traces of a session: half of the largest document that can be read.
constexpr std::size_t kMostPacked = static_cast<std::size_t>(kMaxDocumentBytes / 2);

// Packs the traces that are only named: all of them, or those whose contents lie with us alone. Says which
// could not be.
QStringList pack_traces(Session& session, bool all) {
    QStringList notes;
    std::size_t left = kMostPacked;
    for (SessionTrace& measured : session.measured) {
        if (measured.trace || (!all && measured.stored.empty())) continue;
        auto packed = pack_file(measured.stored.empty() ? measured.path : measured.stored, left);
        if (!packed) {
            notes.append(QObject::tr("%1 is named in the session, not held: %2")
                             .arg(QFileInfo(QString::fromStdString(measured.path)).fileName(),
                                  QString::fromStdString(packed.error().message)));
            continue;
        }
        for (const std::string& piece : *packed)
            left -= piece.size();
        measured.content = std::move(*packed);
    }
    return notes;
}

// What is written can be read: an error text, or "".
QString write(Session& session, const QString& path, QStringList& notes) {
    std::vector<std::string> named;
    const std::string text = session_to_text(session, static_cast<std::size_t>(kMaxDocumentBytes), named);
    for (const std::string& trace : named)
        notes.append(QObject::tr("%1 is named in the session, not held: it would be too large to be read")
                         .arg(QFileInfo(QString::fromStdString(trace)).fileName()));
    if (text.size() > static_cast<std::size_t>(kMaxDocumentBytes))
        return QObject::tr("the session would be too large to be read (%1 MiB, at most %2)")
            .arg(text.size() >> 20U)
            .arg(kMaxDocumentBytes >> 20);
    const Status written = write_text_file(path.toStdString(), text);
    return written ? QString() : QString::fromStdString(tw::to_string(written.errors()));
}

// The traces that a session holds, as files below `folder`: by the paths that they are called.
std::map<QString, QString> unpack_traces(const Session& session, const QDir& folder, Errors& errors) {
    std::map<QString, QString> copies;
    int number = 0;
    for (const SessionTrace& measured : session.measured) {
        if (measured.content.empty()) continue;
        const QString path = QString::fromStdString(measured.path), name = QFileInfo(path).fileName();
        const QDir own(folder.filePath(QString::number(number++)));
        const QString file = own.filePath(name.isEmpty() || name == ".." || name == "." ? "trace" : name);
        own.mkpath(".");
        if (const Status written = unpack_file(measured.content, file.toStdString()); !written) {
            Error error = written.error();
            error.context = measured.path;
            errors.push_back(std::move(error));
        } else {
            copies[path] = file;
        }
    }
    return copies;
}

}  // namespace

QString Workbench::save_session(const QString& path, const WindowState& state) {
    Session session = session_now(state);
    QStringList notes = pack_traces(session, /*all=*/true);
    const QString wrong = write(session, path, notes);
    tell_unpacked(notes);
    if (wrong.isEmpty()) session_path_ = path;
    return wrong;
}

void Workbench::save_session_later(const QString& path, const WindowState& state,
                                   std::function<void(const QString& wrong)> done) {
    // Two at once might write one file.
    if (jobs_.busy("save")) return done(tr("a session is still being saved"));
    jobs_.start(
        "save", tr("Saving %1").arg(QFileInfo(path).fileName()),
        [this, path, done = std::move(done), of = session_,
         session = std::make_shared<Session>(session_now(state))](JobContext&) -> std::function<void()> {
            QStringList notes = pack_traces(*session, /*all=*/true);
            const QString wrong = write(*session, path, notes);
            return [this, path, done, of, notes, wrong] {
                tell_unpacked(notes);
                if (wrong.isEmpty() && of == session_) session_path_ = path;
                done(wrong);
            };
        },
        /*keeps=*/true);
}

void Workbench::tell_unpacked(const QStringList& notes) {
    clear_problems("session");
    for (const QString& note : notes)
        report({Problem::Severity::Warning, "session", note, tr("send the file beside the session")});
}

QString Workbench::write_session(const QString& path, const WindowState& state) const {
    Session session = session_now(state);
    QStringList notes = pack_traces(session, /*all=*/false);
    return write(session, path, notes);
}

Session Workbench::session_now(const WindowState& state) const {
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
    const auto name = [&](const QStringList& paths, const QStringList& stored) {
        for (qsizetype i = 0; i < paths.size(); ++i)
            session.measured.push_back({paths[i].toStdString(), nullptr, {}, stored.value(i).toStdString()});
    };
    for (const Measured& measured : measured_) {
        if (measured.trace) {
            session.measured.push_back({measured.path.toStdString(), measured.trace, {}, {}});
        } else {
            name(QStringList(measured.path) + measured.more, measured.stored);
        }
    }
    for (const OpenedProfile& profile : profiles_)
        session.files.push_back({profile.path.toStdString(), profile.text});
    for (const Imported& imported : imported_)
        session.files.push_back({imported.path.toStdString(), imported.text});
    for (const auto& [channel, opening] : opening_) {
        if (!opening.stored.isEmpty()) {
            name(opening.names, opening.stored);
            continue;
        }
        for (const QString& file : opening.names)
            session.files.push_back({file.toStdString(), {}});
    }
    session.layout_base64 = state.layout.toBase64().toStdString();
    session.theme = state.theme.toStdString();
    session.timeline = state.timeline.toStdString();
    return session;
}

void Workbench::open_session(const QString& path, bool named) {
    const QString name = QFileInfo(path).fileName();
    if (!unpacked_) unpacked_ = std::make_unique<QTemporaryDir>();
    const QDir folder(unpacked_->filePath(QString::number(++open_jobs_)));
    jobs_.start("session", tr("Opening session %1").arg(name),
                [this, path, name, named, folder](JobContext&) -> std::function<void()> {
                    const auto text = read_text_file(path.toStdString());
                    auto read =
                        text ? session_from_text(*text, name.toStdString()) : Result<Session>(text.errors());
                    if (!read) return [this, name, errors = read.errors()] { report(errors, name); };
                    auto session = std::make_shared<Session>(std::move(*read));
                    auto documents = std::make_shared<std::vector<Opened>>();
                    for (const SessionFile& file : session->files)
                        documents->push_back(file.text.empty() ? Opened() : open_text(file.text, file.path));
                    Errors errors;
                    auto copies = unpack_traces(*session, folder, errors);
                    return [this, path = named ? path : QString(), name, session, documents, copies, errors] {
                        take_session(path, *session, std::move(*documents), copies);
                        report(errors, name);
                    };
                });
}

void Workbench::take_session(const QString& path, const Session& session, std::vector<Opened> documents,
                             const std::map<QString, QString>& copies) {
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
            measured_.push_back({trace_path, make_trace_model(measured.trace), measured.trace, {}, {}});
        } else {
            elsewhere.append(trace_path);
        }
    }
    session_path_ = path;
    ++session_;
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
    if (!elsewhere.isEmpty()) open_stored(elsewhere, copies);
}

}  // namespace tw::gui
