"""Hosts that are namespaces of this machine: each has its own name and network, and a link of a given rate to the others.

    with EmulatedHosts(2, rate="2gbit") as hosts:
        hosts.mpirun(ranks_per_host, "program", "argument")

A bridge joins their links; tc's token bucket limits what each sends. Processor and memory are shared, so what is measured is the
link, not a second machine. Needs the rights to make namespaces (root), iproute2, util-linux and Open MPI.
"""
import os
import pathlib
import shutil
import subprocess
import tempfile

NETWORK = "10.99.7"


def why_not():
    """Why this machine cannot emulate hosts; empty where it can."""
    for program in ("ip", "tc", "unshare", "nsenter", "mpirun"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    tried = subprocess.run(["unshare", "-n", "-u", "sh", "-c", "ip link add name link0 type veth peer name link1 && "
                            "tc qdisc add dev link0 root tbf rate 1gbit burst 64k latency 10ms"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"namespaces: {tried.stderr.strip()}"


class EmulatedHosts:
    def __init__(self, count, rate):
        self.count, self.rate, self.holders = count, rate, []
        self.folder = tempfile.TemporaryDirectory(prefix="trainwright-hosts-")

    def address(self, host):
        return f"{NETWORK}.{host + 1}"

    def _in(self, holder, *words):
        return ["nsenter", "-t", str(holder.pid), "-n", "-u", *map(str, words)]

    def _run(self, *words):
        subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)

    def _hold(self, name):
        # Signals that its namespaces are there, then keeps them.
        holder = subprocess.Popen(["unshare", "-n", "-u", "sh", "-c", f"hostname {name}; ip link set lo up; echo; exec sleep 3600"],
                                  stdout=subprocess.PIPE, text=True)
        self.holders.append(holder)
        holder.stdout.readline()
        return holder

    def __enter__(self):
        try:
            switch = self._hold("switch")
            self._run(*self._in(switch, "ip", "link", "add", "bridge", "type", "bridge"))
            self._run(*self._in(switch, "ip", "link", "set", "bridge", "up"))
            for number in range(self.count):
                host = self._hold(f"emulated{number}")
                self._run("ip", "link", "add", "eth0", "netns", host.pid, "type", "veth", "peer", "name", f"port{number}", "netns", switch.pid)
                self._run(*self._in(switch, "ip", "link", "set", f"port{number}", "master", "bridge", "up"))
                self._run(*self._in(host, "ip", "addr", "add", f"{self.address(number)}/24", "dev", "eth0"))
                self._run(*self._in(host, "ip", "link", "set", "eth0", "up"))
                self._run(*self._in(host, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", self.rate, "burst", "256k",
                                    "latency", "50ms"))
            # What mpirun starts its daemons with instead of ssh: AGENT HOST COMMAND...
            agent = pathlib.Path(self.folder.name) / "agent"
            lines = [f"{self.address(n)}) pid={self.holders[n + 1].pid};;" for n in range(self.count)]
            agent.write_text('#!/bin/sh\nhost=$1; shift\ncase $host in\n' + "\n".join(lines) +
                             '\nesac\nexec nsenter -t "$pid" -n -u sh -c "$*"\n')
            agent.chmod(0o755)
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        for holder in self.holders:
            holder.kill()
            holder.wait()
        self.folder.cleanup()

    def mpirun(self, ranks_per_host, *words, timeout=300):
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        hosts = ",".join(f"{self.address(n)}:{ranks_per_host}" for n in range(self.count))
        agent = pathlib.Path(self.folder.name) / "agent"
        command = ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "--host", hosts, "-n", ranks_per_host * self.count,
                   "--mca", "plm_rsh_agent", agent, "--mca", "btl", "self,vader,tcp", "--mca", "btl_tcp_if_include", "eth0",
                   "--mca", "oob_tcp_if_include", "eth0", *words]
        return subprocess.run(self._in(self.holders[1], *command), capture_output=True, text=True, timeout=timeout)

