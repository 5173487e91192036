#include "gui/worker/packed_file.hpp"

#include <QByteArray>
#include <QFile>

#include <fmt/format.h>

namespace tw::gui {
namespace {

constexpr qint64 kPiece = qint64{16} << 20;

Error failed(ErrorCode code, const QFile& file) {
    return {code, file.errorString().toStdString(), file.fileName().toStdString(), ""};
}

}  // namespace

Result<std::vector<std::string>> pack_file(const std::string& path, std::size_t most) {
    QFile file(QString::fromStdString(path));
    if (!file.open(QIODevice::ReadOnly)) return failed(ErrorCode::Unreadable, file);
    std::vector<std::string> pieces;
    std::size_t bytes = 0;
    while (!file.atEnd()) {
        const QByteArray piece = file.read(kPiece);
        if (piece.isEmpty()) return failed(ErrorCode::Unreadable, file);
        pieces.push_back(qCompress(piece).toBase64().toStdString());
        bytes += pieces.back().size();
        if (bytes > most)
            return Error{ErrorCode::Failure, fmt::format("is longer than {} bytes, packed", most), path, ""};
    }
    return pieces;
}

Status unpack_file(const std::vector<std::string>& pieces, const std::string& path) {
    QFile file(QString::fromStdString(path));
    if (!file.open(QIODevice::WriteOnly)) return failed(ErrorCode::Failure, file);
    for (const std::string& text : pieces) {
        const auto read = QByteArray::fromBase64Encoding(QByteArray::fromStdString(text),
                                                         QByteArray::AbortOnBase64DecodingErrors);
        // The length that a piece claims is memory that is asked for at once.
        const auto* head = reinterpret_cast<const unsigned char*>(read.decoded.constData());
        const bool whole = read && read.decoded.size() > 4;
        const qint64 claimed =
            whole ? (qint64{head[0]} << 24) + (head[1] << 16) + (head[2] << 8) + head[3] : kPiece + 1;
        const QByteArray piece = claimed <= kPiece ? qUncompress(read.decoded) : QByteArray();
        if (piece.isEmpty())
            return Error{ErrorCode::Failure, "is damaged: not what a session packs", path, ""};
        if (file.write(piece) != piece.size()) return failed(ErrorCode::Failure, file);
    }
    if (!file.flush()) return failed(ErrorCode::Failure, file);
    return ok();
}

}  // namespace tw::gui
