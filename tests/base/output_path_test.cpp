// Where written files go: through links, and into pipes.
#include "base/output_path.hpp"

#include <fstream>
#include <iterator>
#include <thread>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/json.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tw {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(OutputPath, ALinkStandsForItsTarget) {
    const TemporaryFolder folder;
    fs::create_directory(folder.path() / "kept");
    const fs::path target = folder.path() / "kept" / "plan.json", link = folder.path() / "link.json",
                   chain = folder.path() / "chain.json";
    fs::create_symlink("kept/plan.json", link);
    fs::create_symlink(link, chain);
    EXPECT_EQ(output_path(target), target);
    EXPECT_EQ(output_path(chain), target);  // not there yet
    ASSERT_TRUE(write_text_file(chain, "first"));
    ASSERT_TRUE(write_text_file(link, "second"));
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_TRUE(fs::is_symlink(chain));
    EXPECT_EQ(content(target), "second");
    EXPECT_FALSE(fs::exists(target.string() + ".part"));

    const fs::path circle = folder.path() / "circle";
    fs::create_symlink("circle", circle);
    EXPECT_EQ(output_path(circle), circle);
    fs::create_symlink("nowhere/plan.json", folder.path() / "lost.json");
    EXPECT_FALSE(write_text_file(folder.path() / "lost.json", "text"));
}

TEST(OutputPath, APipeIsWrittenInPlace) {
    const TemporaryFolder folder;
    const fs::path pipe = folder.path() / "pipe", link = folder.path() / "link";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    fs::create_symlink(pipe, link);
    EXPECT_TRUE(written_in_place(pipe));
    EXPECT_TRUE(written_in_place(link));
    EXPECT_FALSE(written_in_place(folder.path() / "none"));
    for (const fs::path& path : {pipe, link}) {
        std::string read;
        std::thread reader([&] { read = content(pipe); });
        EXPECT_TRUE(write_text_file(path, "through"));
        reader.join();
        EXPECT_EQ(read, "through");
        EXPECT_TRUE(fs::is_fifo(pipe));
    }
    EXPECT_TRUE(fs::is_symlink(link));
}

}  // namespace
}  // namespace tw
