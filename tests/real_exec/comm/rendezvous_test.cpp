#include <chrono>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "real_exec/comm/rendezvous/key_value_store.hpp"
#include "real_exec/comm/rendezvous/launcher_environment.hpp"

namespace tw {
namespace {

using Variables = std::map<std::string, std::string>;

LauncherVariables of(const Variables& variables) {
    return [&variables](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    };
}

TEST(LauncherEnvironment, Torchrun) {
    Variables v = {{"RANK", "5"},
                   {"WORLD_SIZE", "8"},
                   {"LOCAL_RANK", "1"},
                   {"MASTER_ADDR", "a"},
                   {"MASTER_PORT", "29500"}};
    const auto rank = launched_rank(of(v));
    ASSERT_TRUE(rank) << to_string(rank.errors());
    EXPECT_EQ(rank->rank, 5);
    EXPECT_EQ(rank->size, 8);
    EXPECT_EQ(rank->local_rank, 1);
    EXPECT_EQ(rank->address.host, "a");
    EXPECT_EQ(rank->address.port, 29500);
    EXPECT_EQ(rank->launcher, "torchrun");
    v["TORCHELASTIC_USE_AGENT_STORE"] = "True";  // its own store has the port
    EXPECT_EQ(launched_rank(of(v))->address.port, 29501);
}

TEST(LauncherEnvironment, Slurm) {
    Variables v = {{"SLURM_PROCID", "3"},
                   {"SLURM_NTASKS", "4"},
                   {"SLURM_LOCALID", "1"},
                   {"SLURM_JOB_ID", "40123"},
                   {"SLURM_JOB_NODELIST", "gpu[07-09,12],login1"}};
    const auto rank = launched_rank(of(v));
    ASSERT_TRUE(rank) << to_string(rank.errors());
    EXPECT_EQ(rank->rank, 3);
    EXPECT_EQ(rank->local_rank, 1);
    EXPECT_EQ(rank->address.host, "gpu07");
    EXPECT_EQ(rank->address.port, 20123);
    v["MASTER_ADDR"] = "other";
    v["MASTER_PORT"] = "1234";
    EXPECT_EQ(launched_rank(of(v))->address.host, "other");
    EXPECT_EQ(launched_rank(of(v))->address.port, 1234);
}

TEST(LauncherEnvironment, NamesAllThatIsMissing) {
    const Variables v = {{"RANK", "9"}, {"WORLD_SIZE", "8x"}};
    const auto rank = launched_rank(of(v));
    ASSERT_FALSE(rank);
    const std::string text = to_string(rank.errors());
    EXPECT_NE(text.find("WORLD_SIZE: '8x' is not a number"), std::string::npos) << text;
    EXPECT_NE(text.find("MASTER_ADDR: is not set"), std::string::npos) << text;
    EXPECT_NE(text.find("MASTER_PORT: is not set"), std::string::npos) << text;
    const Variables none;
    const auto nobody = launched_rank(of(none));
    ASSERT_FALSE(nobody);
    EXPECT_NE(to_string(nobody.errors()).find("torchrun --no-python "), std::string::npos)
        << to_string(nobody.errors());
    const Variables beyond = {{"RANK", "8"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}};
    EXPECT_EQ(to_string(launched_rank(of(beyond)).errors()), "RANK: is 8 of 8 ranks (hint: 0 to 7)");
}

TEST(LauncherEnvironment, WhoStartedThisProcess) {
    struct Case {
        Variables variables;
        Launcher with_mpi, without;
    };
    const Case cases[] = {
        {{}, Launcher::None, Launcher::None},
        {{{"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_RANK", "0"}}, Launcher::Mpi, Launcher::None},
        {{{"RANK", "0"}, {"WORLD_SIZE", "2"}}, Launcher::Torchrun, Launcher::Torchrun},
        {{{"SLURM_PROCID", "0"}}, Launcher::Slurm, Launcher::Slurm},
        // srun --mpi=pmix: without MPI in the build the same ranks meet by themselves.
        {{{"SLURM_PROCID", "0"}, {"PMIX_RANK", "0"}}, Launcher::Mpi, Launcher::Slurm},
        {{{"SLURM_PROCID", "0"}, {"PMI_RANK", "0"}}, Launcher::Mpi, Launcher::Slurm},
        // srun starts torchrun, whose ranks inherit srun's variables.
        {{{"SLURM_PROCID", "0"}, {"PMIX_RANK", "0"}, {"RANK", "3"}, {"WORLD_SIZE", "8"}},
         Launcher::Torchrun,
         Launcher::Torchrun},
        // A RANK of somebody else's.
        {{{"SLURM_PROCID", "1"}, {"RANK", "3"}}, Launcher::Slurm, Launcher::Slurm},
        {{{"OMPI_COMM_WORLD_SIZE", "2"}, {"RANK", "3"}}, Launcher::Mpi, Launcher::Torchrun},
    };
    for (const Case& c : cases) {
        std::string names;
        for (const auto& [name, value] : c.variables)
            names += name + " ";
        EXPECT_EQ(launcher_of(of(c.variables), true), c.with_mpi) << names;
        EXPECT_EQ(launcher_of(of(c.variables), false), c.without) << names;
    }
}

TEST(LauncherEnvironment, FirstHost) {
    EXPECT_EQ(*first_host("node1"), "node1");
    EXPECT_EQ(*first_host("node1,node2"), "node1");
    EXPECT_EQ(*first_host("n[3,5]-ib,x"), "n3-ib");
    EXPECT_EQ(*first_host("r1n[001-128]"), "r1n001");
    EXPECT_FALSE(first_host(""));
    EXPECT_FALSE(first_host("n[]"));
    EXPECT_FALSE(first_host("n[3"));
}

TEST(KeyValueStore, AllRanksReadWhatOneWrites) {
    auto served = open_store({"127.0.0.1", 0}, true, 5);
    ASSERT_TRUE(served) << to_string(served.errors());
    const StoreAddress address{"127.0.0.1", port_of(**served)};
    ASSERT_GT(address.port, 0);
    std::vector<std::thread> threads;
    for (int r = 1; r < 4; ++r) {
        threads.emplace_back([&, r] {
            auto store = open_store(address, false, 5);
            ASSERT_TRUE(store) << to_string(store.errors());
            EXPECT_TRUE(
                (*store)->set("from" + std::to_string(r), std::string(static_cast<std::size_t>(r), '\0')));
            const auto id = (*store)->get("id", 5);
            ASSERT_TRUE(id) << to_string(id.errors());
            EXPECT_EQ(*id, std::string("a\0b", 3));
        });
    }
    for (int r = 1; r < 4; ++r)
        EXPECT_EQ((*served)->get("from" + std::to_string(r), 5)->size(), static_cast<std::size_t>(r));
    EXPECT_TRUE((*served)->set("id", std::string("a\0b", 3)));
    for (std::thread& thread : threads)
        thread.join();
}

double seconds_of(const std::function<void()>& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(KeyValueStore, ARankZeroThatNeverAnswersMeetsTheDeadline) {
    // Connections are made by the system; nobody accepts them.
    const int silent = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof own;
    ASSERT_EQ(::bind(silent, reinterpret_cast<sockaddr*>(&own), length), 0);
    ASSERT_EQ(::listen(silent, 4), 0);
    ASSERT_EQ(::getsockname(silent, reinterpret_cast<sockaddr*>(&own), &length), 0);
    auto store = open_store({"127.0.0.1", ntohs(own.sin_port)}, false, 5);
    ASSERT_TRUE(store) << to_string(store.errors());
    const double took = seconds_of([&] {
        const auto answer = (*store)->get("id", 0.2);
        ASSERT_FALSE(answer);
        EXPECT_NE(to_string(answer.errors()).find("rank 0 does not answer"), std::string::npos)
            << to_string(answer.errors());
    });
    EXPECT_LT(took, 4);
    ::close(silent);
}

TEST(KeyValueStore, PeersWaitForADescriptor) {
    auto served = open_store({"127.0.0.1", 0}, true, 5);
    ASSERT_TRUE(served);
    ASSERT_TRUE((*served)->set("id", "here"));
    const StoreAddress address{"127.0.0.1", port_of(**served)};
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const int next = ::dup(0);
    ::close(next);
    const rlimit one_more{static_cast<rlim_t>(next) + 1, before.rlim_max};  // the peer's own end
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &one_more), 0);
    auto store = open_store(address, false, 5);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_TRUE(store) << to_string(store.errors());
    const auto value = (*store)->get("id", 5);
    ASSERT_TRUE(value) << to_string(value.errors());
    EXPECT_EQ(*value, "here");
}

TEST(KeyValueStore, SaysWhatItWaitedFor) {
    auto served = open_store({"127.0.0.1", 0}, true, 5);
    ASSERT_TRUE(served);
    const auto missing = (*served)->get("tp:0,1#0", 0.05);
    ASSERT_FALSE(missing);
    EXPECT_NE(to_string(missing.errors()).find("nobody set 'tp:0,1#0'"), std::string::npos);
    const StoreAddress address{"127.0.0.1", port_of(**served)};
    EXPECT_FALSE(open_store(address, true, 1));  // the port is taken
    served->reset();
    EXPECT_FALSE(open_store(address, false, 0.05));  // nobody listens
}

}  // namespace
}  // namespace tw
