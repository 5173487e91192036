// The cluster as drawn: nodes with their GPUs, coloured by pipeline stage; bars for the load of links and
// NICs under the plan; the ranks of a chosen group joined.
#pragma once

#include <QAbstractScrollArea>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gui/view/topology_layout.hpp"
#include "gui/view/topology_load.hpp"

namespace tw::gui {

class TopologyView : public QAbstractScrollArea {
    Q_OBJECT

  public:
    explicit TopologyView(QWidget* parent = nullptr);

    // Null report: the cluster alone, without a plan. `load` is that of the plan.
    void show_cluster(std::shared_ptr<const Cluster> cluster, std::shared_ptr<const SimulationReport> report,
                      TopologyLoad load = {});
    void set_kind(const std::string& kind);                  // "tp", ...: what a click chooses
    void choose_group_of(int rank);                          // -1: none
    void choose_pipeline_ranks(const std::set<int>& ranks);  // from the timeline: those ranks are outlined
    [[nodiscard]] const std::vector<int>& chosen() const { return chosen_; }

  Q_SIGNALS:
    // Ranks of the chosen group, and the pipeline ranks that they are: rows of a simulated timeline.
    void group_chosen(const std::vector<int>& ranks, const std::set<int>& pipeline_ranks);

  protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    bool viewportEvent(QEvent* event) override;
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;

  private:
    void lay_out();
    [[nodiscard]] int pipeline_rank(int rank) const;
    void draw(QPainter& painter, const TopologyLayout& layout, double scroll, double height) const;
    [[nodiscard]] QString tip(int rank, int node) const;
    [[nodiscard]] NodeLoad load_of(std::size_t node) const;

    std::shared_ptr<const Cluster> cluster_;
    std::shared_ptr<const SimulationReport> report_;
    std::unique_ptr<RankPlacement> placement_;
    TopologyLoad load_;
    TopologyLayout layout_;
    std::string kind_ = "tp";
    std::vector<int> chosen_;
    int focused_ = -1;  // rank that the keys are at
};

}  // namespace tw::gui
