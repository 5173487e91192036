#include "gui/worker/jobs.hpp"

#include <QMetaObject>
#include <QRunnable>
#include <algorithm>

#include <sys/resource.h>

namespace tw::gui {
namespace {

// A search uses every core; the window's thread goes first where both want the same one. On Linux niceness
// belongs to a thread, and threads that it starts inherit it.
void stand_back() {
    constexpr int kNicer = 5;
    static thread_local const int done =
        ::setpriority(PRIO_PROCESS, 0, ::getpriority(PRIO_PROCESS, 0) + kNicer);
    static_cast<void>(done);
}

}  // namespace

void JobContext::progress(double share, std::string text) {
    QMetaObject::invokeMethod(
        owner_,
        [owner = owner_, id = id_, share, text = QString::fromStdString(text)] {
            const auto at = owner->running_.find(id);
            if (at == owner->running_.end()) return;
            at->second.row.share = share;
            at->second.row.text = text;
            Q_EMIT owner->changed();
        },
        Qt::QueuedConnection);
}

void JobContext::post(std::function<void()> deliver) {
    QMetaObject::invokeMethod(
        owner_, [owner = owner_, id = id_, deliver = std::move(deliver)] { owner->run_here(id, deliver); },
        Qt::QueuedConnection);
}

Jobs::Jobs(QObject* parent) : QObject(parent) {
    pool_.setMaxThreadCount(8);  // a search's own threads are the planner's
}

Jobs::~Jobs() {
    cancel_all();
    pool_.waitForDone();
}

void Jobs::start(const std::string& channel, const QString& title, Work work, bool keeps) {
    drop_quietly(channel);
    auto context = std::make_shared<JobContext>();
    context->owner_ = this;
    context->id_ = next_++;
    running_[context->id_] = {{context->id_, channel, title, {}, -1}, context, false};
    pool_.start([this, context, keeps, work = std::move(work)] {
        stand_back();
        std::function<void()> deliver;
        if (keeps || !context->cancelled()) deliver = work(*context);
        if (context->cancelled() && !keeps) deliver = nullptr;
        QMetaObject::invokeMethod(
            this, [this, id = context->id_, deliver = std::move(deliver)] { end(id, deliver); },
            Qt::QueuedConnection);
    });
    Q_EMIT changed();
}

void Jobs::cancel(const std::string& channel) {
    for (auto& [id, job] : running_)
        if (job.row.channel == channel) {
            job.context->stop_ = true;
            job.row.text = tr("cancelling");
        }
    Q_EMIT changed();
}

void Jobs::drop_quietly(const std::string& channel) {
    for (auto& [id, job] : running_)
        if (job.row.channel == channel) {
            job.context->stop_ = true;
            job.dropped = true;
        }
}

void Jobs::drop(const std::string& channel) {
    drop_quietly(channel);
    Q_EMIT changed();
}

void Jobs::cancel_all() {
    for (auto& [id, job] : running_) {
        job.context->stop_ = true;
        job.row.text = tr("cancelling");
    }
    Q_EMIT changed();
}

bool Jobs::busy(const std::string& channel) const {
    return std::any_of(running_.begin(), running_.end(), [&](const auto& entry) {
        return entry.second.row.channel == channel && !entry.second.dropped;
    });
}

std::vector<Jobs::Row> Jobs::rows() const {
    std::vector<Row> rows;
    for (const auto& [id, job] : running_)
        if (!job.dropped) rows.push_back(job.row);
    return rows;
}

void Jobs::run_here(int id, const std::function<void()>& deliver) {
    const auto at = running_.find(id);
    if (at != running_.end() && !at->second.dropped && !at->second.context->cancelled()) deliver();
}

void Jobs::end(int id, const std::function<void()>& deliver) {
    const auto at = running_.find(id);
    if (at == running_.end()) return;
    const bool dropped = at->second.dropped;
    running_.erase(at);
    if (deliver && !dropped) deliver();
    Q_EMIT changed();
    if (running_.empty()) Q_EMIT finished();
}

}  // namespace tw::gui
