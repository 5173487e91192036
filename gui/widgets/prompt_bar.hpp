// A line of input that a view opens over itself: searching, filtering, finding, writing a note. Not modal;
// Esc closes it and gives the focus back.
#pragma once

#include <QFrame>
#include <functional>

class QLabel;
class QLineEdit;
class QListWidget;

namespace tw::gui {

class PromptBar : public QFrame {
    Q_OBJECT

  public:
    explicit PromptBar(QWidget* parent);

    struct Handlers {
        std::function<void(const QString& text)> changed;
        std::function<void(const QString& text, bool backwards)> accepted;  // Enter; Shift+Enter: backwards
        std::function<void(int row)> chosen;                                // of the list, where there is one
        std::function<void()> closed;                                       // by Esc
        bool stays = false;                                                 // open after Enter
        bool list = false;
    };
    void open(const QString& label, const QString& text, const QString& placeholder, Handlers handlers);
    void close_prompt(bool cancelled);
    // What the prompt is about has changed: its text is taken anew.
    void refresh();
    void set_status(const QString& text, bool problem = false);
    void set_choices(const QStringList& choices);
    [[nodiscard]] QLineEdit* line() const { return line_; }
    [[nodiscard]] QListWidget* list() const { return list_; }
    // Places itself at the top right of its parent's `area`.
    void place(const QRect& area);

  protected:
    bool eventFilter(QObject* object, QEvent* event) override;

  private:
    void accept(bool backwards);

    QLabel* label_;
    QLineEdit* line_;
    QLabel* status_;
    QListWidget* list_;
    Handlers handlers_;
    QRect area_;
};

}  // namespace tw::gui
