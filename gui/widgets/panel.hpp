// What every view of the window is: a widget with a name that can be painted into a picture and may hold a
// table to export.
#pragma once

#include <QWidget>

class QAbstractItemModel;
class QPainter;
class QTableView;

namespace tw::gui {

class Panel : public QWidget {
    Q_OBJECT

  public:
    // `name`: as in file names, "plans"; `title`: as on its tab.
    Panel(const char* name, const QString& title, QWidget* parent = nullptr);

    [[nodiscard]] const QString& title() const { return title_; }
    // Paints the whole view into `size`; the widget itself unless a view knows better (vectors stay vectors).
    virtual void paint_view(QPainter& painter, const QSize& size);
    // What is scrolled away is in the picture, too, up to a size that programs still open.
    [[nodiscard]] virtual QSize picture_size() const;
    // What "export table" and "copy" mean here; null: nothing.
    [[nodiscard]] virtual QTableView* table() const { return nullptr; }
    // Where the keyboard focus goes when the panel is shown.
    virtual void focus_view();
    // To the field that a problem names ("plan: tp"): widgets are called as their keys; focus_view() where
    // there is none.
    void focus_field(const QString& where);
    // Whether anybody can see it. Qt keeps a panel behind another tab visible, and moves it out of the
    // window.
    [[nodiscard]] bool is_seen() const { return seen_; }
    void set_seen(bool seen);

  protected:
    // It can be seen again: what a panel puts off while it is behind another tab is due.
    virtual void come_into_view() {}
    // The panel's layout: `content` alone, scrolled upright and never narrower than it needs.
    void fill_scrolling(QWidget* content);
    // Or `view` below a bar of a chooser and what is said about it.
    void fill_below_bar(QWidget* chooser, QWidget* status, QWidget* view);

  private:
    QString title_;
    bool seen_ = false;
};

// By the suffix (.png, .svg, .pdf); an error text, or "". `scale`: pixels of a PNG a pixel of the view.
QString export_picture(Panel& panel, const QString& path, qreal scale = 2);

}  // namespace tw::gui
