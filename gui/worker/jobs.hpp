// Work in the background. A job runs a function on a thread of its own and hands the answer to the window's
// thread; a new job of a channel cancels the one before it, whose answer is then never delivered. Only the
// window's thread calls these functions; destroying a Jobs cancels all and waits for them.
#pragma once

#include <QObject>
#include <QString>
#include <QThreadPool>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tw::gui {

// What a running job sees: whether it is to end soon, and where it says how far it is. Thread-safe.
class JobContext {
  public:
    [[nodiscard]] bool cancelled() const { return stop_.load(std::memory_order_relaxed); }
    [[nodiscard]] const std::atomic<bool>* stop_flag() const { return &stop_; }
    // 0..1; negative: not known. `text` says what is being done.
    void progress(double share, std::string text);
    // Runs `deliver` in the window's thread unless the job was cancelled by then.
    void post(std::function<void()> deliver);

  private:
    friend class Jobs;
    std::atomic<bool> stop_{false};
    class Jobs* owner_ = nullptr;
    int id_ = 0;
};

class Jobs : public QObject {
    Q_OBJECT

  public:
    struct Row {
        int id = 0;
        std::string channel;
        QString title, text;
        double share = -1;
    };

    explicit Jobs(QObject* parent = nullptr);
    ~Jobs() override;

    // `work` runs in the background; what it returns runs in the window's thread (nothing where it is empty).
    // `keeps` true: a cancelled job still runs and delivers what it has (a search, a file that it writes).
    using Work = std::function<std::function<void()>(JobContext& context)>;
    void start(const std::string& channel, const QString& title, Work work, bool keeps = false);
    void cancel(const std::string& channel);
    // Ends a channel's job, whose answer is then never delivered, not even what it keeps when it is
    // cancelled.
    void drop(const std::string& channel);
    void cancel_all();
    [[nodiscard]] bool busy() const { return !running_.empty(); }
    [[nodiscard]] bool busy(const std::string& channel) const;
    [[nodiscard]] std::vector<Row> rows() const;

  Q_SIGNALS:
    void changed();   // a job began, ended or said how far it is
    void finished();  // the last running job ended

  private:
    friend class JobContext;
    struct Job {
        Row row;
        std::shared_ptr<JobContext> context;
        bool dropped = false;  // its answer is not wanted
    };
    void run_here(int id, const std::function<void()>& deliver);
    void end(int id, const std::function<void()>& deliver);
    void drop_quietly(const std::string& channel);

    QThreadPool pool_;
    std::map<int, Job> running_;
    int next_ = 1;
};

}  // namespace tw::gui
