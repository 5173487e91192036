// The look and the manners of every table: dense rows, sorting by value, copying as TSV.
#pragma once

#include <QTableView>

namespace tw::gui {

class TableView : public QTableView {
    Q_OBJECT

  public:
    // `name` is what a screen reader says.
    explicit TableView(const QString& name, QWidget* parent = nullptr);

    // Shows the model in its own order; with `sorted`, behind a ValueSort.
    void show_model(QAbstractItemModel* model, bool sorted = false);
    // To their contents, until the user sets a width; one takes what is left.
    void fit_columns(int stretched = -1);
    void copy_selection() const;               // all rows where none is selected
    [[nodiscard]] int content_height() const;  // of all rows with the heading

  protected:
    void changeEvent(QEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void paintEvent(QPaintEvent* event) override;  // with the frame of what has the focus
    void focusInEvent(QFocusEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;
    bool viewportEvent(QEvent* event) override;  // what is cut off is said by a tip

  private:
    void set_density();
    [[nodiscard]] int content_width(int column) const;
    [[nodiscard]] int least_width() const;
    int stretched_ = -1;
    bool fitting_ = false, by_hand_ = false;  // who sets the widths
};

}  // namespace tw::gui
