#!/usr/bin/env python3
"""Two ranks measure this machine within seconds: messages and collectives are in the profile, its curves plan and predict,
a second call goes on where an interrupted one stopped."""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

BUDGET = "2s"
ONLY = "copies,dispatch,point_to_point,collectives,busy_neighbours,overlap,gemm"


def run(*command, code=0):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
    if done.returncode != code:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}, not {code}\n{done.stdout}{done.stderr}")
    return done


def mpirun(binary, *words):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return run("mpirun", *root, "-n", 2, "--oversubscribe", "--bind-to", "none", binary, *words)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        profile = folder / "two.profile.json"
        mpirun(arguments.bin / "trainwright-profile", "--output", profile, "--budget", BUDGET, "--points", 40,
               "--only", ONLY)
        document = json.loads(profile.read_text())
        environment = document["environment"]
        if environment["ranks"] != 2 or not environment["complete"]:
            sys.exit(f"two ranks did not measure together: {environment}")
        for kind in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv"):
            curves = [c for c in document["collectives"] if c["kind"] == kind and c["group_size"] == 2]
            if len(curves) != 1 or curves[0]["lines"][0]["rate_bytes_per_s"] <= 0:
                sys.exit(f"no curve for {kind}: {curves}")
        if {i["beside"] for i in document["interference"]} != {"ranks", "communication"}:
            sys.exit(f"interference: {document['interference']}")

        trainwright = arguments.bin / "trainwright"
        planned = run(trainwright, "plan", "--model", "gpt2-tiny", "--cluster", f"{profile}:2", "--global-batch", 8,
                      "--seq-len", 64, "--json")
        if json.loads(planned.stdout)["schema"] != "trainwright/plan-answer" and "plans" not in planned.stdout:
            sys.exit("no plan from the profile's cluster")
        refused = run(trainwright, "plan", "--model", "gpt2-tiny", "--cluster", f"{profile}:64", "--global-batch", 64, code=2)
        if "no network" not in refused.stderr:
            sys.exit(f"64 devices without a network: {refused.stderr}")
        shown = json.loads(run(trainwright, "profile", "show", profile, "--json").stdout)
        if not any(s["benchmark"] == "gemm" and s["predicted_points"] > 0 for s in shown["samples"]):
            sys.exit("profile show has no samples beside the fits")
        # Ctrl-C between two plans or in a run: no failure of the ranks.
        compare = subprocess.Popen([trainwright, "compare", "--plans", "20", "--profile", profile, "--each", "30s"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(4)
        compare.send_signal(signal.SIGINT)
        _, said = compare.communicate(timeout=120)
        if compare.returncode != 130 or "error: compare: interrupted" not in said:
            sys.exit(f"an interrupted comparison: exit code {compare.returncode}\n{said}")
        # Ctrl-C before anything can be fitted: the samples stay, and the same command goes on.
        young = folder / "young.profile.json"
        command = [trainwright, "profile", "-o", young, "--budget", "60s", "--only", "copies,norms,gemm"]
        early = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(6)
        early.send_signal(signal.SIGINT)
        _, said = early.communicate(timeout=120)
        if early.returncode != 130 or "the same command goes on" not in said:
            sys.exit(f"a young profile, interrupted: exit code {early.returncode}\n{said}")
        kept = [s for s in json.loads(young.read_text())["samples"] if s["benchmark"] != "pace"]
        if not kept or json.loads(young.read_text())["environment"]["complete"]:
            sys.exit("an interrupted profile left no samples")
        # A fast machine may have measured enough for a fit by then.
        words = [trainwright, "plan", "--model", "gpt2-tiny", "--cluster", f"{young}:2", "--global-batch", "8"]
        unfit = subprocess.run(words, capture_output=True, text=True)
        if unfit.returncode not in (0, 5) or (unfit.returncode == 5 and "before anything could be fitted" not in unfit.stderr):
            sys.exit(f"a plan by samples alone: exit code {unfit.returncode}, {unfit.stderr}")
        picture = run(trainwright, "profile", "show", profile, "--svg", "-").stdout
        if not picture.startswith("<svg") and "<svg" not in picture:
            sys.exit("no picture of samples and fits")

        # An interrupted document: what is in it is not measured again.
        document["environment"]["complete"] = False
        document["samples"] = [s for s in document["samples"] if s["benchmark"] != "collective"]
        profile.write_text(json.dumps(document))
        resumed = mpirun(arguments.bin / "trainwright-profile", "--output", profile, "--budget", "1s", "--only", "dispatch,collectives")
        if "are kept" not in resumed.stderr:
            sys.exit(f"the interrupted profile was not gone on with: {resumed.stderr}")
        again = json.loads(profile.read_text())
        gemm = [s["values"] for s in document["samples"] if s["benchmark"] == "dispatch"]
        if gemm != [s["values"] for s in again["samples"] if s["benchmark"] == "dispatch"]:
            sys.exit("a resumed profile measured again what it had")
        if not any(s["benchmark"] == "collective" for s in again["samples"]):
            sys.exit("a resumed profile did not measure what was missing")
    print("ok")


if __name__ == "__main__":
    main()
