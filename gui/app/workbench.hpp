// The state of a window without its widgets: what is asked for, which plans there are, which one is shown,
// what is measured. Every change goes through here, runs its long work in the background and is told by a
// signal; edits can be undone.
#pragma once

#include <QByteArray>
#include <QObject>
#include <QPointer>
#include <QString>
#include <QStringList>
#include <QTemporaryDir>
#include <QUndoStack>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "gui/worker/jobs.hpp"
#include "gui/worker/setup.hpp"
#include "models/formats/document.hpp"

namespace tw {
struct ParallelPlan;
struct ProfileDocument;
struct SimulationReport;
struct Trace;
class TraceModel;
}  // namespace tw

namespace tw::gui {

struct Explanation;
struct Opened;
struct PlanEntry;
struct Session;
struct Study;
struct WhatIf;
struct WhatIfAnswer;
using StudyPtr = std::shared_ptr<const Study>;

struct Problem {
    enum class Severity : unsigned char { Error, Warning, Note } severity = Severity::Error;
    QString where;  // the field, file or key
    QString message, hint;
    ErrorCode code = ErrorCode::Failure;
};

// The plan that every view shows: the selected one, perhaps edited.
struct Shown {
    int id = 0;  // of the selected entry; 0: none
    StudyPtr study;
    std::shared_ptr<const ParallelPlan> base, plan;       // as selected; as edited
    std::shared_ptr<const SimulationReport> base_report;  // null until simulated
    std::shared_ptr<const SimulationReport> report;       // of `plan`; of the plan before it while `running`
    std::shared_ptr<const TraceModel> trace;  // of the report; of the plan before where that was cancelled
    std::shared_ptr<const Explanation> explanation;  // null until asked for
    Errors errors;                                   // why `plan` cannot be simulated
    bool edited = false, running = false;
};

struct Measured {
    QString path;
    std::shared_ptr<const TraceModel> model;
    std::shared_ptr<const Trace> trace;  // null: a foreign trace, which names no instructions
    QStringList more;                    // files of the other ranks, in the same model
    QStringList stored = {};             // where the contents of all of them lie, if not there: of a session
    [[nodiscard]] QString name() const;  // "rank0.json and 3 more"
};

// A hardware profile that was opened, with its raw samples where it holds any; as text for the session.
struct OpenedProfile {
    QString path;
    std::shared_ptr<const ProfileDocument> document;
    std::string text;
};

// A log, a topology or another document of which its facts are shown.
struct Imported {
    QString path;
    DocumentSummary summary;
    std::string text;
};

class Workbench : public QObject {
    Q_OBJECT

  public:
    explicit Workbench(QObject* parent = nullptr);
    ~Workbench() override;

    [[nodiscard]] Jobs& jobs() { return jobs_; }
    [[nodiscard]] bool jobs_busy() const { return jobs_.busy(); }
    [[nodiscard]] QUndoStack& undo() { return undo_; }
    // An undoable change: `redo` is called at once.
    void push(const QString& text, std::function<void()> redo, std::function<void()> undo);

    [[nodiscard]] const Setup& setup() const { return setup_; }
    void edit_setup(const Setup& setup, const QString& what);  // undoable
    [[nodiscard]] const StudyPtr& study() const {
        return study_;
    }  // of the setup; null while it is not legal
    [[nodiscard]] const Errors& setup_errors() const { return setup_errors_; }

    void start_search();
    void cancel();
    [[nodiscard]] bool searching() const { return jobs_.busy("search"); }
    [[nodiscard]] QString search_text() const { return search_text_; }

    [[nodiscard]] const std::vector<PlanEntry>& plans() const { return plans_; }
    [[nodiscard]] const PlanEntry* plan(int id) const;
    int add_plan(PlanEntry entry);  // its id
    void remove_plan(int id);       // undoable; kept and opened plans

    [[nodiscard]] const Shown& shown() const { return shown_; }
    void select(int id);                                              // undoable
    void edit_plan(const ParallelPlan& plan, const QString& what);    // undoable
    void set_field(const std::string& key, const std::string& text);  // one field, with what follows from it
    void revert_plan();
    void keep_plan();
    void resimulate();
    void explain();
    void try_what_if(const WhatIf& change);
    void adopt_what_if();  // the last what-if's cluster becomes the setup's
    [[nodiscard]] const std::shared_ptr<const WhatIfAnswer>& what_if_answer() const { return what_if_; }
    [[nodiscard]] QString what_if_text() const { return what_if_text_; }

    void pin(int side, int id);  // 0: A, 1: B; undoable
    [[nodiscard]] const PlanEntry* pinned(int side) const;

    // Documents of any kind, each in the background: "plan.json#t=12.3ms&rank=5" goes to a place. PyTorch
    // traces of the ranks of one job open as one; logs and topologies are imported together into one profile.
    void open(const QStringList& paths);
    [[nodiscard]] const std::vector<Measured>& measured() const { return measured_; }
    [[nodiscard]] const std::vector<OpenedProfile>& profiles() const { return profiles_; }
    [[nodiscard]] const std::vector<Imported>& imported() const { return imported_; }
    // trainwright profile import of all of them; `device`: --device, else what the files name, else the
    // setup's.
    void import_by_program(const QStringList& paths, const QString& device = {});
    [[nodiscard]] bool importing() const { return importing_ > 0; }
    void use_as_cluster(
        const OpenedProfile& profile);  // the cluster that an imported profile holds; undoable
    // The program beside this one's own, else the one on the path.
    [[nodiscard]] static QString program(const QString& name);

    // The shown plan as a document; an error text, or "".
    QString write_plan(const QString& path) const;
    // A timeline's trace, in the background: `done` hears an error text, or "".
    void write_chrome_trace(const QString& path, std::shared_ptr<const TraceModel> trace,
                            std::function<void(const QString& wrong)> done);

    // Nothing is chosen, found, opened or being read.
    [[nodiscard]] bool empty() const;
    // Sessions. What widgets keep (layout, view states) is theirs: opaque here.
    struct WindowState {
        QByteArray layout;
        QByteArray timeline;  // JSON of its ViewState
        QString theme;
    };
    // An error text, or "". Traces of other tools are packed into it.
    QString save_session(const QString& path, const WindowState& state);
    // The same in the background: `done` hears of it in the window's thread.
    void save_session_later(const QString& path, const WindowState& state,
                            std::function<void(const QString& wrong)> done);
    // The same beside the session that is open: what the window keeps for its next start. Files of this
    // machine are named in it.
    QString write_session(const QString& path, const WindowState& state) const;
    [[nodiscard]] QString session_path() const { return session_path_; }
    // `named`: it is the document that is saved from now on.
    void open_session(const QString& path, bool named = true);

    [[nodiscard]] const std::vector<Problem>& problems() const { return problems_; }
    void report(Problem problem);
    void report(const Errors& errors, const QString& where);
    void clear_problems(const QString& where);

  Q_SIGNALS:
    void setup_changed();
    void study_changed();
    void plans_changed();
    void plan_updated(int id);
    void search_changed();
    void shown_changed();  // another plan, an edit, or its simulation ended
    void explained();
    void what_if_changed();
    void pins_changed();
    void measured_changed();
    void profiles_changed();
    void imported_changed();
    void problems_changed();
    void place_requested(double seconds, int rank);  // -1: not given
    void window_state_opened(const tw::gui::Workbench::WindowState& state);
    void file_opened(const QString& path);
    void log(const QString& line);

  private:
    void make_study_of_setup();
    void show_plan(int id, std::shared_ptr<const ParallelPlan> plan,
                   std::shared_ptr<const ParallelPlan> base);
    void simulate_shown();
    void follow_simulation();
    void tell_plans();  // plans_ has changed
    void set_pin(int side, int id);
    void set_found(std::vector<PlanEntry> found, std::vector<PlanEntry> infeasible, bool last);
    struct Batch;  // files that were opened together
    struct Opening {
        QStringList names, stored;  // as in Measured
    };
    void open_stored(const QStringList& paths, const std::map<QString, QString>& copies);
    void take_opened(const Opening& files, Opened opened, Batch& batch);
    void take_import(const QStringList& paths, const QString& output, const QByteArray& answer);
    void take_document(const QString& path, Opened opened);  // a profile, or one that is imported
    [[nodiscard]] Session session_now(const WindowState& state) const;
    void tell_unpacked(const QStringList& notes);
    void take_session(const QString& path, const Session& session, std::vector<Opened> documents,
                      const std::map<QString, QString>& copies);
    void go_to_place();

    std::unique_ptr<QTemporaryDir> unpacked_;  // traces that sessions held; jobs read them, to their end
    Jobs jobs_;
    QUndoStack undo_;
    Setup setup_;
    StudyPtr study_;
    Errors setup_errors_;
    std::vector<PlanEntry> plans_;
    std::vector<PlanEntry> previous_;  // of the search before: plans that are found again keep their ids
    int next_id_ = 1;
    bool search_when_ready_ = false;
    QString search_text_;
    Shown shown_;
    std::array<int, 2> pins_ = {0, 0};
    std::shared_ptr<const WhatIfAnswer> what_if_;
    QString what_if_text_;
    std::vector<Measured> measured_;
    std::vector<OpenedProfile> profiles_;
    std::vector<Imported> imported_;
    std::vector<Problem> problems_;
    std::map<std::string, Opening> opening_;  // by channel: files that are being read
    QStringList made_;                        // files that imports wrote: nobody opens them again
    int importing_ = 0;
    QString session_path_;
    int session_ = 0;  // sessions that were opened: a save may end when another is there
    std::optional<std::pair<double, int>> place_;  // to go to once the plan is simulated
    int open_jobs_ = 0;
};

}  // namespace tw::gui
