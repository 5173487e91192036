// The timeline and the memory of the shown plan or of a measured trace, as panels: their own widgets do the
// work.
#pragma once

#include <memory>

#include "gui/widgets/panel.hpp"

class QComboBox;
class QLabel;

namespace tw {
class TraceModel;
}

namespace tw::gui {

class ActionSet;
class MemoryView;
class RangePanel;
class TimelineView;
class Workbench;

class TimelinePanel : public Panel {
    Q_OBJECT

  public:
    TimelinePanel(Workbench& workbench, const ActionSet& actions, QWidget* parent = nullptr);

    [[nodiscard]] TimelineView* view() const { return view_; }
    // The trace that is shown: the plan's, or a measured one where that was chosen.
    [[nodiscard]] const std::shared_ptr<const TraceModel>& trace() const { return trace_; }
    // The measured trace that is shown, by its path; "": the plan's.
    [[nodiscard]] QString source() const;
    // Shows that one, as soon as it is open, unless another one is chosen by then.
    void show_source(const QString& path);
    [[nodiscard]] bool waits_for_source() const { return !wanted_.isEmpty(); }
    // Share of a device's memory that the shown plan leaves free; 0 for measured traces.
    [[nodiscard]] double headroom() const;
    [[nodiscard]] QSize picture_size() const override;
    void paint_view(QPainter& painter, const QSize& size) override;
    void focus_view() override;

  Q_SIGNALS:
    void trace_changed();

  private:
    void fill();
    bool find_wanted();
    void follow();

    Workbench& workbench_;
    TimelineView* view_ = nullptr;
    QComboBox* source_ = nullptr;
    QLabel* status_ = nullptr;
    std::shared_ptr<const TraceModel> trace_;
    QString wanted_;  // the source that is still to be opened
};

class MemoryPanel : public Panel {
    Q_OBJECT

  public:
    MemoryPanel(TimelinePanel& timeline, const ActionSet& actions, QWidget* parent = nullptr);

    [[nodiscard]] MemoryView* view() const { return view_; }
    void set_bars(bool bars);
    [[nodiscard]] QSize picture_size() const override;
    void paint_view(QPainter& painter, const QSize& size) override;
    void focus_view() override;

  private:
    MemoryView* view_ = nullptr;
    QComboBox* mode_ = nullptr;
    QLabel* status_ = nullptr;
};

}  // namespace tw::gui
