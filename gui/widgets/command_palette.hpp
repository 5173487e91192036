// Every action by a few letters of its name, and the sheet of keys: both made from the action table.
#pragma once

#include <QFrame>
#include <QString>
#include <QStringList>

class QLineEdit;
class QListWidget;
class QTextBrowser;

namespace tw::gui {

class ActionSet;

class CommandPalette : public QFrame {
    Q_OBJECT

  public:
    CommandPalette(const ActionSet& actions, QWidget* window);

    void open();
    [[nodiscard]] QStringList shown_ids() const;  // best match first
    void type(const QString& text);

  protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

  private:
    void filter();
    void run();

    const ActionSet& actions_;
    QLineEdit* text_ = nullptr;
    QListWidget* list_ = nullptr;
    QWidget* before_ = nullptr;  // that had the focus
};

// All keys by group, as HTML.
QString key_sheet(const ActionSet& actions);

// The sheet over the window; closes on any key or click.
class KeySheet : public QFrame {
    Q_OBJECT

  public:
    KeySheet(const ActionSet& actions, QWidget* window);
    void toggle();

  protected:
    void keyPressEvent(QKeyEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;

  private:
    const ActionSet& actions_;
    QTextBrowser* text_ = nullptr;
};

}  // namespace tw::gui
