// Imports: logs, topologies and traces become a profile and a cluster, by the command line's own program.
#include <QCoreApplication>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QProcess>
#include <QRegularExpression>
#include <QStandardPaths>

#include "base/json.hpp"
#include "gui/app/workbench.hpp"
#include "gui/worker/import_json.hpp"
#include "gui/worker/open_file.hpp"
#include "gui/worker/study.hpp"
#include "models/hardware/cluster_json.hpp"
#include "models/hardware/profile_document.hpp"
#include "models/hardware/profile_json.hpp"

namespace tw::gui {
namespace {

// "all_reduce_8", "all_reduce_8-and-3-more": of the files that made it, as a document may be called.
QString name_of(const QStringList& paths) {
    static const QRegularExpression illegal("[^a-z0-9_.-]");
    const QString first = QFileInfo(paths.front()).completeBaseName().toLower().replace(illegal, "-");
    return paths.size() == 1 ? first : QString("%1-and-%2-more").arg(first).arg(paths.size() - 1);
}

std::string joined(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines)
        text += (text.empty() ? "" : "; ") + line;
    return text;
}

// Lines of stderr as problems: "error: CONTEXT: …" with "hint: …" below.
std::vector<Problem> problems_of(const QString& said, const QString& where) {
    std::vector<Problem> problems;
    for (const QString& line : said.split('\n', Qt::SkipEmptyParts)) {
        const QString text = line.trimmed();
        if (text.startsWith("hint: ") && !problems.empty()) {
            problems.back().hint = text.mid(6);
        } else if (text.startsWith("error: ")) {
            problems.push_back({Problem::Severity::Warning, where, text.mid(7), {}});
        }
    }
    if (problems.empty())
        problems.push_back(
            {Problem::Severity::Warning, where, QObject::tr("the import failed: %1").arg(said), {}});
    return problems;
}

}  // namespace

QString Workbench::program(const QString& name) {
    const QString beside = QDir(QCoreApplication::applicationDirPath()).filePath(name);
    if (QFileInfo(beside).isExecutable()) return beside;
    return QStandardPaths::findExecutable(name);
}

void Workbench::import_by_program(const QStringList& paths, const QString& device) {
    const QString where = paths.size() == 1 ? QFileInfo(paths.front()).fileName() : tr("import");
    const QString command = program("trainwright");
    if (command.isEmpty())
        return report({Problem::Severity::Warning,
                       where,
                       tr("trainwright is not beside this program: the files are shown, not imported"),
                       {}});
    const QString name = name_of(paths);
    const QDir folder(QDir::temp().filePath(
        QString("trainwright-import-%1-%2").arg(QCoreApplication::applicationPid()).arg(++open_jobs_)));
    folder.mkpath(".");
    const QString output = folder.filePath(name + ".profile.json");
    QStringList arguments = {"profile", "import", "--json", "--name", name, "-o", output};
    if (!device.isEmpty()) arguments += {"--device", device};
    auto* process = new QProcess(this);
    ++importing_;
    connect(process, &QProcess::finished, this,
            [this, process, paths, where, output, device](int code, QProcess::ExitStatus) {
                --importing_;
                const QString said = QString::fromUtf8(process->readAllStandardError()).trimmed();
                const QByteArray answer = process->readAllStandardOutput();
                process->deleteLater();
                if (code == 0 && QFile::exists(output)) return take_import(paths, output, answer);
                // No file names the device: that of the cluster at hand is meant.
                if (device.isEmpty() && study_ && said.contains("--device"))
                    return import_by_program(
                        paths, QString::fromStdString(study_->document.cluster.groups.front().device.name));
                for (Problem& problem : problems_of(said, where))
                    report(std::move(problem));
            });
    connect(process, &QProcess::errorOccurred, this, [this, process, where](QProcess::ProcessError error) {
        if (error != QProcess::FailedToStart) return;  // the others are told by its end
        --importing_;
        report({Problem::Severity::Error,
                where,
                tr("trainwright cannot be started: %1").arg(process->errorString()),
                {}});
        process->deleteLater();
    });
    process->start(command, arguments + paths);
}

void Workbench::take_import(const QStringList& paths, const QString& output, const QByteArray& answer) {
    const auto read =
        import_answer(std::string_view(answer.constData(), static_cast<std::size_t>(answer.size())));
    if (!read) return report(read.errors(), tr("import"));
    // Files by their names: where they lie is known.
    const auto short_text = [&](const std::string& said) {
        QString text = QString::fromStdString(said);
        for (const QString& path : paths)
            text.replace(path, QFileInfo(path).fileName());
        return text;
    };
    for (const ImportFinding& finding : read->findings) {
        const QString file = QFileInfo(QString::fromStdString(finding.file)).fileName();
        report({finding.suspect ? Problem::Severity::Warning : Problem::Severity::Note,
                file.isEmpty() ? tr("import") : file, short_text(finding.message),
                QString::fromStdString(finding.instead)});
    }
    const QString name = QString::fromStdString(read->name);
    report({Problem::Severity::Note, tr("import"),
            tr("%1 of %n file(s): %2", nullptr, static_cast<int>(paths.size()))
                .replace("(s)", paths.size() == 1 ? "" : "s")
                .arg(name, read->taken.empty() ? tr("nothing that a profile holds")
                                               : short_text(joined(read->taken))),
            tr("Profile: Use as cluster plans with it")});
    if (!read->absent.empty())
        report({Problem::Severity::Note,
                tr("import"),
                tr("%1: nobody measured %2").arg(name, short_text(joined(read->absent))),
                {}});
    made_.append(output);
    open({output});
}

void Workbench::use_as_cluster(const OpenedProfile& profile) {
    if (!profile.document->cluster) return;
    Cluster cluster = *profile.document->cluster;
    cluster.profile = encode_profile(profile.document->profile).dump();
    Setup setup = setup_;
    setup.cluster = cluster.name;
    setup.cluster_text = cluster_to_json(cluster).dump();
    edit_setup(setup, tr("Cluster %1").arg(QString::fromStdString(cluster.name)));
}

}  // namespace tw::gui
