#include "gui/widgets/run_panel.hpp"

#include <QComboBox>
#include <QDateTime>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QFontDatabase>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLabel>
#include <QLineEdit>
#include <QPainter>
#include <QPlainTextEdit>
#include <QProcess>
#include <QPushButton>
#include <QSpinBox>
#include <QSplitter>
#include <QTimer>
#include <csignal>

#include "base/si_format.hpp"
#include "gui/actions.hpp"
#include "gui/app/workbench.hpp"
#include "gui/widgets/file_names.hpp"
#include "gui/widgets/plot.hpp"
#include "gui/worker/study.hpp"
#include "sim/report/report.hpp"

namespace tw::gui {

RunPanel::RunPanel(Workbench& workbench, const ActionSet& actions, QWidget* parent)
    : Panel("run", tr("Run"), parent), workbench_(workbench) {
    steps_ = new QSpinBox;
    steps_->setRange(1, 1'000'000);
    steps_->setValue(20);
    steps_->setAccessibleName(tr("Steps to train"));
    const auto line = [](const QString& name, const QString& hint) {
        auto* edit = new QLineEdit;
        edit->setAccessibleName(name);
        edit->setPlaceholderText(hint);
        return edit;
    };
    data_ = line(tr("Data"), tr("built-in corpus"));
    checkpoint_ = line(tr("Checkpoint folder"), tr("none"));
    more_ = line(tr("More options of trainwright run"), tr("--lr 3e-4 --clip 1"));
    backend_ = new QComboBox;
    backend_->setAccessibleName(tr("Backend"));
    backend_->addItems({"cpu", "cuda"});
    target_ = new QComboBox;
    target_->setAccessibleName(tr("Kind of launch file"));
    target_->addItems({"slurm", "mpirun", "mpijob"});
    start_ = new QPushButton(tr("Run"));
    start_->setToolTip(tr("Ctrl+F5"));
    stop_ = new QPushButton(tr("Stop"));
    stop_->setToolTip(tr("Ctrl+Shift+F5"));
    launch_ = new QPushButton(tr("Write launch file…"));
    trace_ = new QPushButton(tr("Open trace"));
    trace_->setToolTip(tr("Ctrl+Shift+M"));
    status_ = new QLabel;
    status_->setWordWrap(true);
    auto* form = new QFormLayout;
    form->setContentsMargins(8, 6, 8, 6);
    form->setVerticalSpacing(4);
    form->addRow(tr("Steps"), steps_);
    form->addRow(tr("Data"), data_);
    form->addRow(tr("Checkpoints"), checkpoint_);
    form->addRow(tr("Backend"), backend_);
    form->addRow(tr("More"), more_);
    auto* buttons = new QHBoxLayout;
    buttons->addWidget(start_);
    buttons->addWidget(stop_);
    buttons->addWidget(trace_);
    form->addRow(buttons);
    auto* launch = new QHBoxLayout;
    launch->addWidget(target_, 1);
    launch->addWidget(launch_, 2);
    form->addRow(launch);
    form->addRow(status_);
    auto* left = new QWidget;
    left->setLayout(form);
    log_ = new QPlainTextEdit;
    log_->setAccessibleName(tr("Log of the run"));
    log_->setReadOnly(true);
    log_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    log_->setMaximumBlockCount(20000);
    log_->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    log_->setFrameShape(QFrame::NoFrame);
    log_->setPlaceholderText(tr("The log of `trainwright run` appears here."));
    log_->setLineWrapMode(QPlainTextEdit::NoWrap);
    log_->setTabChangesFocus(true);
    loss_ = new Plot(tr("Loss"));
    time_ = new Plot(tr("Step time"));
    loss_->set_empty_text(tr("loss"));
    time_->set_empty_text(tr("step time"));
    actions.attach(loss_, ActionContext::Plot);
    actions.attach(time_, ActionContext::Plot);
    auto* plots = new QSplitter(Qt::Vertical);
    plots->addWidget(loss_);
    plots->addWidget(time_);
    auto* split = new QSplitter(Qt::Horizontal);
    split->addWidget(left);
    split->addWidget(log_);
    split->addWidget(plots);
    split->setSizes({270, 660, 660});
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(split);
    poll_ = new QTimer(this);
    poll_->setInterval(200);
    connect(poll_, &QTimer::timeout, this, &RunPanel::read_metrics);
    connect(start_, &QPushButton::clicked, this, &RunPanel::start);
    connect(stop_, &QPushButton::clicked, this, &RunPanel::stop);
    connect(launch_, &QPushButton::clicked, this, [this] { write_launch_file(); });
    connect(trace_, &QPushButton::clicked, this, &RunPanel::open_last_trace);
    connect(&workbench, &Workbench::shown_changed, this, &RunPanel::follow);
    follow();
}

RunPanel::~RunPanel() {
    if (process_ == nullptr) return;
    process_->disconnect(this);
    // Asked, then told: killed, it would leave its ranks behind.
    if (!stopping_) stop();
    if (!process_->waitForFinished(2000)) stop();
    if (!process_->waitForFinished(5000)) process_->kill();
    process_->waitForFinished(1000);
}

bool RunPanel::running() const {
    return process_ != nullptr;
}

void RunPanel::set_options(int steps, const QString& more) {
    steps_->setValue(steps);
    more_->setText(more);
}

void RunPanel::focus_view() {
    steps_->setFocus(Qt::ShortcutFocusReason);
}

QStringList RunPanel::options() const {
    QStringList words = {"--steps", QString::number(steps_->value()), "--backend", backend_->currentText()};
    if (!data_->text().isEmpty()) words << "--data" << data_->text();
    if (!checkpoint_->text().isEmpty()) words << "--checkpoint" << checkpoint_->text();
    return words + QProcess::splitCommand(more_->text());
}

void RunPanel::say(const QString& text) {
    for (const QString& line : text.split('\n', Qt::SkipEmptyParts))
        log_->appendPlainText(line);
}

// A read may end within a line, and within a character of it.
void RunPanel::read_log() {
    take_log(process_->readAll());
}

void RunPanel::take_log(const QByteArray& text) {
    unfinished_ += text;
    const auto whole = unfinished_.lastIndexOf('\n') + 1;
    say(QString::fromUtf8(unfinished_.left(whole)));
    unfinished_.remove(0, whole);
}

void RunPanel::start() {
    if (running()) return;
    workbench_.clear_problems("run");
    const QString program = Workbench::program("trainwright");
    if (program.isEmpty())
        return workbench_.report({Problem::Severity::Error, "run",
                                  tr("trainwright is not beside this program"),
                                  tr("Build target trainwright, or put it on the PATH.")});
    // Kept, so that closing the window loses neither log nor trace.
    folder_ =
        QDir(state_folder()).filePath("runs/" + QDateTime::currentDateTime().toString("yyyyMMdd-HHmmss-zzz"));
    QDir().mkpath(folder_);
    const QDir folder(folder_);
    const QString plan = folder.filePath("plan.json");
    const QString wrong = workbench_.write_plan(plan);
    if (!wrong.isEmpty()) return workbench_.report({Problem::Severity::Error, "run", wrong, {}});
    step_numbers_.clear();
    losses_.clear();
    step_times_.clear();
    // What the prediction is for: devices of the kind that the run uses.
    const Shown& shown = workbench_.shown();
    const std::string& device = shown.study->document.cluster.groups.front().device.name;
    const bool same = device.starts_with("cpu") == (backend_->currentText() == "cpu");
    predicted_s_ = same && shown.report && !shown.running ? shown.report->step_time_s : 0;
    read_ = 0;
    unfinished_.clear();
    log_->clear();
    last_trace_ = folder.filePath("run.trace.json");
    process_ = new QProcess(this);
    process_->setProcessChannelMode(QProcess::MergedChannels);
    connect(process_, &QProcess::readyRead, this, &RunPanel::read_log);
    connect(process_, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
        if (error == QProcess::FailedToStart) ended(127, false);
    });
    connect(process_, &QProcess::finished, this,
            [this](int code, QProcess::ExitStatus status) { ended(code, status == QProcess::CrashExit); });
    const QStringList words =
        QStringList{"run", plan} + options() + QStringList{"--log", folder_, "--trace", last_trace_};
    say("$ trainwright " + words.join(' ').replace(folder_ + "/", "").replace(folder_, "."));
    process_->start(program, words);
    poll_->start();
    follow();
}

void RunPanel::stop() {
    if (!running()) return;
    if (process_->processId() > 0) ::kill(static_cast<pid_t>(process_->processId()), SIGINT);
    stopping_ = true;
    follow();
}

void RunPanel::ended(int code, bool crashed) {
    poll_->stop();
    if (process_ == nullptr) return;
    read_log();
    say(QString::fromUtf8(std::exchange(unfinished_, {})));
    read_metrics();
    process_->deleteLater();
    process_ = nullptr;
    stopping_ = false;
    const bool succeeded = code == 0 && !crashed;
    if (!succeeded && code != 130) {
        const QString last = log_->toPlainText().section('\n', -1);
        workbench_.report(
            {Problem::Severity::Error, "run", tr("the run ended with exit code %1").arg(code), last});
    }
    follow();
    status_->setText(succeeded     ? tr("finished")
                     : code == 130 ? tr("interrupted")
                                   : tr("failed, exit code %1").arg(code));
    if (QFile::exists(last_trace_)) {
        open_last_trace();
    } else {
        last_trace_.clear();
    }
    Q_EMIT finished(succeeded);
}

void RunPanel::open_last_trace() {
    if (last_trace_.isEmpty())
        return workbench_.report({Problem::Severity::Note, "run", tr("there is no measured trace yet"), {}});
    workbench_.open({last_trace_});
}

void RunPanel::take_metrics(const QByteArray& text) {
    for (const QByteArray& line : text.split('\n')) {
        const QJsonObject step = QJsonDocument::fromJson(line).object();
        if (!step.contains("step")) continue;
        step_numbers_.push_back(step["step"].toDouble());
        losses_.push_back(step["loss"].toDouble());
        step_times_.push_back(step["step_time_s"].toDouble());
    }
    if (step_numbers_.empty()) return;
    const auto series = [&](const std::vector<double>& y, int colour) {
        PlotSeries s;
        s.x = step_numbers_;
        s.y = y;
        s.points = step_numbers_.size() < 200;
        s.colour = colour;
        return std::vector<PlotSeries>{s};
    };
    loss_->show_series(series(losses_, 0), {tr("step"), false, {}}, {tr("loss"), false, {}});
    std::vector<PlotSeries> times = series(step_times_, 1);
    if (predicted_s_ > 0) {
        times.front().name = tr("measured");
        PlotSeries predicted;
        predicted.name = tr("predicted");
        predicted.x = {step_numbers_.front(), step_numbers_.back()};
        predicted.y = {predicted_s_, predicted_s_};
        predicted.dashed = predicted.faint = true;
        times.push_back(std::move(predicted));
    }
    time_->show_series(
        std::move(times), {tr("step"), false, {}},
        {tr("step time"), false, [](double v) { return QString::fromStdString(format_duration(v)); }});
}

void RunPanel::read_metrics() {
    QFile file(QDir(folder_).filePath("metrics.jsonl"));
    if (!file.open(QIODevice::ReadOnly) || file.size() <= read_) return;
    file.seek(read_);
    QByteArray text = file.readAll();
    // A line that is being written is read when it is whole.
    text.truncate(text.lastIndexOf('\n') + 1);
    read_ += text.size();
    take_metrics(text);
}

void RunPanel::write_launch_file() {
    static const QMap<QString, QString> suffixes = {
        {"slurm", "sbatch"}, {"mpirun", "sh"}, {"mpijob", "yaml"}};
    const QString path = ask_save_name(this, tr("Write launch file"),
                                       "trainwright." + suffixes[target_->currentText()], QString());
    if (!path.isEmpty()) write_launch_file(path);
}

void RunPanel::write_launch_file(const QString& path) {
    workbench_.clear_problems("launch");
    const QString program = Workbench::program("trainwright");
    const QString plan = QFileInfo(path).dir().filePath(QFileInfo(path).completeBaseName() + ".plan.json");
    const QString wrong =
        program.isEmpty() ? tr("trainwright is not beside this program") : workbench_.write_plan(plan);
    if (!wrong.isEmpty()) return workbench_.report({Problem::Severity::Error, "launch", wrong, {}});
    auto* process = new QProcess(this);
    process->setProcessChannelMode(QProcess::MergedChannels);
    connect(process, &QProcess::finished, this, [this, process, path](int code, QProcess::ExitStatus) {
        const QString said = QString::fromUtf8(process->readAll()).trimmed();
        process->deleteLater();
        if (code == 0) return status_->setText(tr("wrote %1").arg(path));
        for (const QString& one : said.split('\n', Qt::SkipEmptyParts))
            workbench_.report({Problem::Severity::Error, "launch", one, {}});
    });
    connect(process, &QProcess::errorOccurred, this, [this, process](QProcess::ProcessError error) {
        if (error != QProcess::FailedToStart) return;  // the others are told by its end
        workbench_.report({Problem::Severity::Error,
                           "launch",
                           tr("trainwright cannot be started: %1").arg(process->errorString()),
                           {}});
        process->deleteLater();
    });
    process->start(program,
                   QStringList{"launch", plan, "--to", target_->currentText(), "-o", path} + options());
}

void RunPanel::follow() {
    const bool any = workbench_.shown().plan != nullptr;
    start_->setEnabled(any && !running());
    stop_->setEnabled(running());
    launch_->setEnabled(any);
    trace_->setEnabled(!last_trace_.isEmpty() && !running());
    stop_->setText(stopping_ ? tr("End at once") : tr("Stop"));
    stop_->setToolTip(stopping_ ? tr("Ctrl+Shift+F5: without its checkpoint and trace")
                                : tr("Ctrl+Shift+F5"));
    if (running())
        status_->setText(stopping_ ? tr("stopping: it ends after its step and writes what it has")
                                   : tr("running"));
}

void RunPanel::paint_view(QPainter& painter, const QSize& size) {
    loss_->paint_plot(painter, {size.width(), size.height() / 2});
    painter.translate(0, size.height() / 2);
    time_->paint_plot(painter, {size.width(), size.height() - size.height() / 2});
}

}  // namespace tw::gui
