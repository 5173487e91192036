#include "gui/widgets/setup_panel.hpp"

#include <QComboBox>
#include <QCompleter>
#include <QDoubleSpinBox>
#include <QFileInfo>
#include <QFormLayout>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>

#include "base/si_format.hpp"
#include "gui/app/workbench.hpp"
#include "gui/widgets/constraint_editor.hpp"
#include "gui/worker/study.hpp"
#include "models/load_model.hpp"
#include "plan/check_plan.hpp"

namespace tw::gui {
namespace {

QStringList texts(const std::vector<std::string>& names) {
    QStringList list;
    for (const std::string& name : names)
        list.append(QString::fromStdString(name));
    return list;
}

QComboBox* choice(const QString& name, const QStringList& items, bool editable) {
    auto* box = new QComboBox;
    box->setAccessibleName(name);
    box->addItems(items);
    box->setEditable(editable);
    if (editable) {
        box->setInsertPolicy(QComboBox::NoInsert);
        box->completer()->setFilterMode(Qt::MatchContains);
        box->completer()->setCompletionMode(QCompleter::PopupCompletion);
        box->setMinimumContentsLength(7);
    }
    box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    return box;
}

QSpinBox* number(const QString& name, int low, int high) {
    auto* box = new QSpinBox;
    box->setAccessibleName(name);
    box->setRange(low, high);
    box->setKeyboardTracking(false);
    box->setGroupSeparatorShown(true);
    box->setMinimumWidth(60);
    return box;
}

// "h100:64" apart; no size where it names a document.
std::pair<QString, int> split_cluster(const Setup& setup) {
    const QString text = QString::fromStdString(setup.cluster);
    const auto colon = text.lastIndexOf(':');
    bool sized = false;
    const int devices = colon > 0 ? text.mid(colon + 1).toInt(&sized) : 0;
    if (!setup.cluster_text.empty() || !sized) return {text, 0};
    return {text.left(colon), devices};
}

}  // namespace

SetupPanel::SetupPanel(Workbench& workbench, QWidget* parent)
    : Panel("setup", tr("Model and cluster"), parent), workbench_(workbench) {
    model_ = choice(tr("Model"), texts(model_names()), true);
    cluster_ = choice(tr("Cluster"), texts(cluster_names()), true);
    model_->lineEdit()->setPlaceholderText(tr("preset, or drop config.json"));
    cluster_->lineEdit()->setPlaceholderText(tr("preset, or drop a document"));
    devices_ = number(tr("Devices"), 1, kMaxClusterDevices);
    devices_->setValue(8);
    batch_ = number(tr("Global batch, sequences"), 1, 1 << 24);
    seq_len_ = number(tr("Sequence length, tokens"), 0, 1 << 24);
    seq_len_->setSpecialValueText(tr("model's own"));
    precision_ = choice(tr("Precision"), QStringList(tr("automatic")) + texts(precision_names()), false);
    optimizer_ = choice(tr("Optimizer"), texts(optimizer_names()), false);
    objective_ = choice(tr("Objective"), {"time", "memory", "money", "pareto"}, false);
    objective_->setToolTip(tr("What the best plan has least of; pareto: plans that no other beats in all."));
    framework_ = choice(tr("Framework"), texts(target_framework_names()), false);
    framework_->setToolTip(
        tr("Only plans that it can run, under its own rules: the --for of the command line."));
    headroom_ = new QDoubleSpinBox;
    headroom_->setAccessibleName(tr("Headroom, percent of memory"));
    headroom_->setRange(0, 90);
    headroom_->setDecimals(1);
    headroom_->setSuffix(" %");
    headroom_->setKeyboardTracking(false);
    headroom_->setToolTip(tr("Memory of every device to leave free: predictions err by a few percent."));
    top_ = number(tr("Plans to answer with"), 1, 1000);
    const std::pair<const char*, QWidget*> fields[] = {{"model", model_},         {"cluster", cluster_},
                                                       {"devices", devices_},     {"batch", batch_},
                                                       {"seq_len", seq_len_},     {"precision", precision_},
                                                       {"optimizer", optimizer_}, {"objective", objective_},
                                                       {"headroom", headroom_},   {"framework", framework_}};
    for (const auto& [key, widget] : fields)
        widget->setObjectName(key);
    constraints_ = new ConstraintEditor(workbench);
    find_ = new QPushButton(tr("Find plans"));
    find_->setToolTip(tr("F5"));
    cancel_ = new QPushButton(tr("Cancel"));
    cancel_->setToolTip(tr("Shift+F5"));
    facts_ = new QLabel;
    facts_->setWordWrap(true);
    facts_->setTextInteractionFlags(Qt::TextSelectableByMouse);
    progress_ = new QLabel;
    progress_->setWordWrap(true);
    progress_->setAccessibleName(tr("Progress of the search"));

    auto* content = new QWidget;
    auto* grid = new QGridLayout(content);
    grid->setContentsMargins(8, 6, 8, 6);
    grid->setHorizontalSpacing(6);
    grid->setVerticalSpacing(4);
    grid->setColumnStretch(1, 1);
    grid->setColumnStretch(3, 1);
    int row = 0;
    const auto label = [&](const QString& text, QWidget* buddy, int column) {
        auto* name = new QLabel(text);
        name->setBuddy(buddy);
        grid->addWidget(name, row, column);
    };
    const auto wide = [&](const QString& text, QWidget* widget) {
        label(text, widget, 0);
        grid->addWidget(widget, row++, 1, 1, 3);
    };
    const auto pair = [&](const QString& first, QWidget* a, const QString& second, QWidget* b) {
        label(first, a, 0);
        grid->addWidget(a, row, 1);
        label(second, b, 2);
        grid->addWidget(b, row++, 3);
    };
    wide(tr("&Model"), model_);
    pair(tr("C&luster"), cluster_, tr("&Devices"), devices_);
    pair(tr("&Batch"), batch_, tr("Se&q."), seq_len_);
    pair(tr("P&recision"), precision_, tr("O&ptim."), optimizer_);
    pair(tr("&Objective"), objective_, tr("&Headroom"), headroom_);
    pair(tr("&For"), framework_, tr("Pla&ns"), top_);
    grid->addWidget(facts_, row++, 0, 1, 4);
    grid->addWidget(constraints_, row++, 0, 1, 4);
    auto* buttons = new QHBoxLayout;
    buttons->addWidget(find_, 1);
    buttons->addWidget(cancel_, 1);
    grid->addLayout(buttons, row++, 0, 1, 4);
    grid->addWidget(progress_, row++, 0, 1, 4);
    grid->setRowStretch(row, 1);
    fill_scrolling(content);

    connect(model_, &QComboBox::activated, this, &SetupPanel::edited);
    connect(model_->lineEdit(), &QLineEdit::editingFinished, this, &SetupPanel::edited);
    connect(cluster_, &QComboBox::activated, this, &SetupPanel::edited);
    connect(cluster_->lineEdit(), &QLineEdit::editingFinished, this, &SetupPanel::edited);
    for (QSpinBox* box : {devices_, batch_, seq_len_, top_})
        connect(box, &QSpinBox::valueChanged, this, &SetupPanel::edited);
    connect(headroom_, &QDoubleSpinBox::valueChanged, this, &SetupPanel::edited);
    for (QComboBox* box : {precision_, optimizer_, objective_, framework_})
        connect(box, &QComboBox::activated, this, &SetupPanel::edited);
    connect(find_, &QPushButton::clicked, &workbench, &Workbench::start_search);
    connect(cancel_, &QPushButton::clicked, &workbench, &Workbench::cancel);
    connect(&workbench, &Workbench::setup_changed, this, &SetupPanel::follow);
    connect(&workbench, &Workbench::study_changed, this, &SetupPanel::describe_study);
    connect(&workbench, &Workbench::search_changed, this, &SetupPanel::follow_search);
    connect(&workbench.jobs(), &Jobs::changed, this, &SetupPanel::follow_search);
    follow();
    follow_search();
}

void SetupPanel::focus_view() {
    model_->setFocus(Qt::ShortcutFocusReason);
}

void SetupPanel::follow() {
    const Setup& setup = workbench_.setup();
    filling_ = true;
    const QString model = QString::fromStdString(setup.model);
    model_->setEditText(setup.model_text.empty() ? model : QFileInfo(model).fileName());
    model_->setToolTip(model);
    const auto [cluster, devices] = split_cluster(setup);
    cluster_->setEditText(setup.cluster_text.empty() ? cluster : QFileInfo(cluster).fileName());
    cluster_->setToolTip(cluster);
    devices_->setEnabled(devices > 0 || setup.cluster.empty());
    devices_->setValue(devices > 0 ? devices : devices_->value());
    batch_->setValue(static_cast<int>(setup.global_batch));
    seq_len_->setValue(static_cast<int>(setup.seq_len));
    precision_->setCurrentIndex(
        setup.precision.empty() ? 0 : precision_->findText(QString::fromStdString(setup.precision)));
    optimizer_->setCurrentText(QString::fromStdString(setup.optimizer));
    objective_->setCurrentText(QString::fromStdString(setup.objective));
    framework_->setCurrentText(QString::fromStdString(setup.framework));
    headroom_->setValue(setup.headroom_percent);
    top_->setValue(setup.top);
    filling_ = false;
}

void SetupPanel::edited() {
    if (filling_) return;
    Setup setup = workbench_.setup();
    const QString model = model_->currentText().trimmed();
    // The name of a document that was dropped stands for it until another name is typed.
    if (setup.model_text.empty() || model != QFileInfo(QString::fromStdString(setup.model)).fileName()) {
        setup.model = model.toStdString();
        setup.model_text.clear();
    }
    const QString cluster = cluster_->currentText().trimmed();
    if (setup.cluster_text.empty() ||
        cluster != QFileInfo(QString::fromStdString(setup.cluster)).fileName()) {
        const bool path = cluster.contains('/') || cluster.endsWith(".json") || cluster.contains(':');
        setup.cluster =
            (path || cluster.isEmpty() ? cluster : QString("%1:%2").arg(cluster).arg(devices_->value()))
                .toStdString();
        setup.cluster_text.clear();
    }
    setup.global_batch = batch_->value();
    setup.seq_len = seq_len_->value();
    setup.precision = precision_->currentIndex() == 0 ? "" : precision_->currentText().toStdString();
    setup.optimizer = optimizer_->currentText().toStdString();
    setup.objective = objective_->currentText().toStdString();
    setup.framework = framework_->currentText().toStdString();
    setup.headroom_percent = headroom_->value();
    setup.top = top_->value();
    workbench_.edit_setup(setup, tr("Edit model and cluster"));
}

void SetupPanel::describe_study() {
    const StudyPtr& study = workbench_.study();
    if (!study) {
        const Errors& errors = workbench_.setup_errors();
        facts_->setText(errors.empty() ? QString() : QString::fromStdString(errors.front().message));
        return;
    }
    const LayerGraph& graph = study->document.graph;
    const Cluster& cluster = study->document.cluster;
    facts_->setText(
        tr("%1 parameters, %2 blocks, %3 %4 a step · %5")
            .arg(QString::fromStdString(format_short_count(static_cast<double>(graph.parameters()))))
            .arg(graph.blocks)
            .arg(QString::fromStdString(format_short_count(
                static_cast<double>(workbench_.setup().global_batch) *
                static_cast<double>(!graph.counts_tokens             ? 1
                                    : workbench_.setup().seq_len > 0 ? workbench_.setup().seq_len
                                                                     : graph.default_seq_len))))
            .arg(graph.counts_tokens ? tr("tokens") : tr("images"))
            .arg(QString::fromStdString(devices_text(cluster))));
}

void SetupPanel::follow_search() {
    const bool searching = workbench_.searching();
    find_->setEnabled(!searching);
    cancel_->setEnabled(workbench_.jobs().busy());
    progress_->setText(workbench_.search_text());
}

}  // namespace tw::gui
