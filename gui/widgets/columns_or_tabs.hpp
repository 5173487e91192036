// Pages side by side where there is room for all of them, behind tabs where there is not: each page keeps the
// width that its texts need.
#pragma once

#include <QWidget>
#include <vector>

class QSplitter;
class QTabWidget;

namespace tw::gui {

class ColumnsOrTabs : public QWidget {
    Q_OBJECT

  public:
    // Narrower than `least` average characters the pages are tabs.
    explicit ColumnsOrTabs(const QString& name, int least, QWidget* parent = nullptr);

    // `title`: of its tab; `share`: of the width, beside the others.
    void add_page(QWidget* page, const QString& title, int share);
    void show_page(QWidget* page);  // brings it to the front where the pages are tabs
    [[nodiscard]] bool tabbed() const { return tabbed_; }
    [[nodiscard]] QSize minimumSizeHint() const override;

  Q_SIGNALS:
    void arranged(bool tabbed);

  protected:
    void resizeEvent(QResizeEvent* event) override;
    void changeEvent(QEvent* event) override;

  private:
    struct Page {
        QWidget* widget = nullptr;
        QString title;
        int share = 1;
    };
    void arrange();

    QSplitter* columns_ = nullptr;
    QTabWidget* tabs_ = nullptr;
    std::vector<Page> pages_;
    int least_;
    bool tabbed_ = false;
};

}  // namespace tw::gui
