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
    void fit_columns(int stretched = -1);      // to their contents; one takes what is left
    void copy_selection() const;               // all rows where none is selected
    [[nodiscard]] int content_height() const;  // of all rows with the heading

  protected:
    void changeEvent(QEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    bool viewportEvent(QEvent* event) override;  // what is cut off is said by a tip

  private:
    void set_density();
    [[nodiscard]] int content_width(int column) const;
    [[nodiscard]] int least_width() const;
    int stretched_ = -1;
};

}  // namespace tw::gui
