#!/usr/bin/env python3
"""trainwright-profile and trainwright-exec across two emulated hosts that a link of a known rate joins.

    two_hosts_test.py --bin build/bin

The profile has curves inside a host and between both, its cluster a network port of the link's rate, and plans for more hosts
come from it. A run across the hosts has the losses of one process. Says SKIPPED and why where this machine cannot emulate hosts.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import emulated_hosts
from slurm_test import TOLERANCE, losses, plan_for

RATE_BITS = 2e9  # per second, of the link
STEPS = 3


def check_profile(binary, hosts, folder):
    profile = folder / "hosts.profile.json"
    done = hosts.mpirun(2, binary / "trainwright-profile", "--output", profile, "--budget", "10s", "--points", 120, "--only",
                        "copies,dispatch,point_to_point,collectives,gemm", timeout=500)
    if done.returncode != 0:
        sys.exit(f"trainwright-profile across hosts: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    document = json.loads(profile.read_text())
    if document["environment"]["ranks"] != 4:
        sys.exit(f"not four ranks: {document['environment']}")
    groups = {(c["kind"], c["group_size"], c.get("nodes", 1)) for c in document["collectives"]}
    for wanted in [("all_reduce", 2, 1), ("all_reduce", 4, 2), ("all_reduce", 2, 2), ("send_recv", 2, 1), ("send_recv", 2, 2)]:
        if wanted not in groups:
            sys.exit(f"no curve of {wanted}: {sorted(groups)}")
    node = document["cluster"]["groups"][0]["node"]
    rate = node["nic_bandwidth_bytes_per_s"]
    # The token bucket passes its rate, and a burst of 256 KB beyond it; TCP and a busy machine take some of it.
    if node["nics"] != 1 or not 0.3 * RATE_BITS / 8 < rate < 1.1 * RATE_BITS / 8:
        sys.exit(f"a link of {RATE_BITS / 8:.3g} bytes/s was measured as {rate:.3g}, {node['nics']} ports")
    if node["link_bandwidth_bytes_per_s"] < 2 * rate:
        sys.exit(f"inside a host messages are as slow as between hosts: {node}")
    planned = subprocess.run([binary / "trainwright", "plan", "--model", "gpt2-tiny", "--cluster", f"{profile}:8", "--global-batch", "16",
                              "--seq-len", "64", "--json"], capture_output=True, text=True)
    if planned.returncode != 0:
        sys.exit(f"no plan for four hosts: {planned.stderr}")
    print(f"link of {RATE_BITS / 8e6:.0f} MB/s measured as {rate / 1e6:.0f} MB/s, {node['nic_latency_s'] * 1e6:.0f} us")


def check_run(binary, hosts, folder):
    executor = binary / "trainwright-exec"
    (folder / "one.json").write_text(json.dumps(plan_for(1, 1, 1)))
    (folder / "four.json").write_text(json.dumps(plan_for(2, 2, 2)))
    subprocess.run([executor, folder / "one.json", "--steps", str(STEPS), "--log", folder / "one", "--quiet"], check=True, timeout=300)
    done = hosts.mpirun(2, executor, folder / "four.json", "--steps", STEPS, "--log", folder / "four", "--quiet")
    if done.returncode != 0:
        sys.exit(f"trainwright-exec across hosts: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    for one, four in zip(losses(folder / "one"), losses(folder / "four"), strict=True):
        if abs(one - four) > TOLERANCE * abs(one):
            sys.exit(f"losses across hosts differ from those of one process: {four} and {one}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    binary = parser.parse_args().bin.resolve()
    reason = emulated_hosts.why_not()
    if reason:
        print(f"SKIPPED: {reason}: measuring across hosts was NOT tested")
        return
    with tempfile.TemporaryDirectory() as name, emulated_hosts.EmulatedHosts(2, f"{RATE_BITS / 1e6:.0f}mbit") as hosts:
        check_profile(binary, hosts, pathlib.Path(name))
        check_run(binary, hosts, pathlib.Path(name))
    print("ok")


if __name__ == "__main__":
    main()
