// Running the shown plan by `trainwright run` as a process: live log, loss and step time; launch files by
// `trainwright launch`.
#pragma once

#include <vector>

#include "gui/widgets/panel.hpp"

class QComboBox;
class QLabel;
class QLineEdit;
class QPlainTextEdit;
class QProcess;
class QPushButton;
class QSpinBox;
class QTimer;

namespace tw::gui {

class ActionSet;
class Plot;
class Workbench;

class RunPanel : public Panel {
    Q_OBJECT

  public:
    RunPanel(Workbench& workbench, const ActionSet& actions, QWidget* parent = nullptr);
    ~RunPanel() override;

    void start();
    void stop();  // asks: the run ends after its step and writes what it keeps; called again: ends it at once
    [[nodiscard]] bool running() const;
    [[nodiscard]] bool stopping() const { return stopping_; }
    [[nodiscard]] std::size_t steps_done() const { return step_numbers_.size(); }  // of the last run
    void write_launch_file();                                                      // asks where
    void write_launch_file(const QString& path);
    void open_last_trace();
    void paint_view(QPainter& painter, const QSize& size) override;
    void focus_view() override;
    void set_options(int steps, const QString& more);
    // More of the run's output, cut anywhere: lines appear when they are whole.
    void take_log(const QByteArray& text);

  Q_SIGNALS:
    void finished(bool succeeded);

  private:
    void say(const QString& text);
    void read_log();
    void read_metrics();
    void take_metrics(const QByteArray& text);
    void follow();
    void ended(int code, bool crashed);
    [[nodiscard]] QStringList options() const;

    Workbench& workbench_;
    QSpinBox* steps_ = nullptr;
    QLineEdit *data_ = nullptr, *checkpoint_ = nullptr, *more_ = nullptr;
    QComboBox *backend_ = nullptr, *target_ = nullptr;
    QPushButton *start_ = nullptr, *stop_ = nullptr, *launch_ = nullptr, *trace_ = nullptr;
    QLabel* status_ = nullptr;
    QPlainTextEdit* log_ = nullptr;
    Plot *loss_ = nullptr, *time_ = nullptr;
    QTimer* poll_ = nullptr;
    QProcess* process_ = nullptr;
    bool stopping_ = false;  // it was asked to end
    QString folder_;         // of the last run
    QByteArray unfinished_;  // last line of its output
    qint64 read_ = 0;        // bytes of metrics.jsonl
    std::vector<double> step_numbers_, losses_, step_times_;
    double predicted_s_ = 0;  // step time; 0: for other devices, or not known
    QString last_trace_;
};

}  // namespace tw::gui
