#!/usr/bin/env python3
"""Training steps of one GPT on one thread, this executor beside PyTorch, in turns so that both meet the same machine.

    compare_torch.py --bin build/bin [--rounds 3] [--seconds 3]

Prints tokens/s by the processor time of one thread (a shared machine's other work does not count) and by the clock, medians of all
steps, the ratios, and the peak memory of both. GPT: 4 layers, width 256, 8 heads, vocabulary 512, 8
sequences of 128 tokens, fp32, no dropout, tied embedding; forward, backward and AdamW. Needs Debian's python3-torch (or any PyTorch
from 1.13 on).
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

BATCH, SEQ, VOCAB, WIDTH, HEADS, LAYERS = 8, 128, 512, 256, 8, 4


def torch_steps(seconds):
    """One process's measurement: median step time in seconds, bytes above what importing PyTorch holds."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    torch.set_num_threads(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
            self.register_buffer("mask", torch.ones(SEQ, SEQ).triu(1).bool(), persistent=False)

        def forward(self, x):
            q, k, v = (t.view(BATCH, SEQ, HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(WIDTH, -1))
            scores = (q @ k.transpose(-2, -1)) * (WIDTH // HEADS) ** -0.5
            p = scores.masked_fill(self.mask, float("-inf")).softmax(-1)
            x = x + self.out((p @ v).transpose(1, 2).reshape(BATCH, SEQ, WIDTH))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(SEQ, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
            self.norm = nn.LayerNorm(WIDTH)

        def forward(self, tokens, targets):
            x = self.tokens(tokens) + self.positions.weight
            for block in self.blocks:
                x = block(x)
            return F.cross_entropy((self.norm(x) @ self.tokens.weight.T).view(-1, VOCAB), targets.view(-1))

    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    index = torch.arange(BATCH * SEQ)
    tokens, targets = (index * 7919 % VOCAB).view(BATCH, SEQ), ((index + 1) * 7919 % VOCAB).view(BATCH, SEQ)
    times, clock = [], []
    end = time.perf_counter() + seconds
    while len(times) < 6 or time.perf_counter() < end:
        start, start_clock = time.process_time(), time.perf_counter()
        loss = model(tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.process_time() - start)
        clock.append(time.perf_counter() - start_clock)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"cpu": times[2:], "clock": clock[2:], "bytes": 1024 * (after - before), "version": torch.__version__}))


def ours(binary, seconds):
    command = [binary, "--benchmark_filter=^BM_GptStep/", f"--benchmark_min_time={seconds / 8}", "--benchmark_format=json", "--benchmark_repetitions=8"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    runs = [b for b in json.loads(output)["benchmarks"] if b["run_type"] == "iteration"]
    return {"cpu": [b["cpu_time"] / 1e3 for b in runs], "clock": [b["real_time"] / 1e3 for b in runs], "bytes": runs[0]["peak_bytes"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--torch-only", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.torch_only:
        torch_steps(arguments.seconds)
        return 0
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    environment["OMP_NUM_THREADS"] = "1"  # set_num_threads does not hold back the matrix products' own threads
    own, torch = [], []
    for _ in range(arguments.rounds):
        own.append(ours(os.path.join(arguments.bin, "bench_exec"), arguments.seconds))
        command = [sys.executable, __file__, "--torch-only", "--seconds", str(arguments.seconds)]
        torch.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout))
    sides = [("executor", own), (f"PyTorch {torch[0]['version']}", torch)]
    rates = []
    for name, runs in sides:
        cpu, clock = (BATCH * SEQ / statistics.median(t for r in runs for t in r[key]) for key in ("cpu", "clock"))
        rates.append((cpu, clock))
        print(f"{name:20} {cpu:8.0f} tokens per processor second  {clock:8.0f} tokens/s by the clock  peak {runs[0]['bytes'] / 1e6:6.1f} MB")
    print(f"{'ratio':20} {rates[0][0] / rates[1][0]:8.2f} {'':28} {rates[0][1] / rates[1][1]:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
