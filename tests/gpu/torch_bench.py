#!/usr/bin/env python3
"""torch_bench.py MODEL BATCH STEPS: the same models as gpu_bench, in PyTorch with torch.compile; one line of JSON.

GPT-2 runs fp32 weights under bf16 autocast, Llama all in bf16, both with fused AdamW, as the field trains them.
"""

import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

PEAK_FLOPS = 989.5e12  # H100 and H200 SXM, dense bf16 (NVIDIA's datasheets)
MODELS = {  # layers, hidden, heads, kv heads, ffn, vocabulary, sequence, llama
    "gpt2-124m": (12, 768, 12, 12, 3072, 50304, 1024, False),
    "gpt2-1.5b": (48, 1600, 25, 25, 6400, 50304, 1024, False),
    "llama-1b": (16, 2048, 32, 8, 8192, 128256, 2048, True),
}


class Block(nn.Module):
    def __init__(self, hidden, heads, kv_heads, ffn, llama):
        super().__init__()
        self.heads, self.kv_heads, self.dim, self.llama = heads, kv_heads, hidden // heads, llama
        bias = not llama
        norm = nn.RMSNorm if llama else nn.LayerNorm
        self.norm1, self.norm2 = norm(hidden), norm(hidden)
        self.qkv = nn.Linear(hidden, (heads + 2 * kv_heads) * self.dim, bias=bias)
        self.out = nn.Linear(hidden, hidden, bias=bias)
        self.up = nn.Linear(hidden, 2 * ffn if llama else ffn, bias=bias)
        self.down = nn.Linear(ffn, hidden, bias=bias)

    def forward(self, x, rotation):
        batch, seq, hidden = x.shape
        q, k, v = self.qkv(self.norm1(x)).split([self.heads * self.dim, self.kv_heads * self.dim, self.kv_heads * self.dim], -1)
        q = q.view(batch, seq, self.heads, self.dim).transpose(1, 2)
        k = k.view(batch, seq, self.kv_heads, self.dim).transpose(1, 2)
        v = v.view(batch, seq, self.kv_heads, self.dim).transpose(1, 2)
        if self.llama:
            cosine, sine = rotation
            rotate = lambda t: t * cosine + torch.cat([-t[..., self.dim // 2 :], t[..., : self.dim // 2]], -1) * sine
            q, k = rotate(q), rotate(k)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv_heads != self.heads)
        x = x + self.out(a.transpose(1, 2).reshape(batch, seq, hidden))
        h = self.up(self.norm2(x))
        if self.llama:
            gate, up = h.chunk(2, -1)
            h = F.silu(gate) * up
        else:
            h = F.gelu(h, approximate="tanh")
        return x + self.down(h)


class Model(nn.Module):
    def __init__(self, layers, hidden, heads, kv_heads, ffn, vocabulary, seq, llama):
        super().__init__()
        self.table = nn.Embedding(vocabulary, hidden)
        self.positions = None if llama else nn.Embedding(seq, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads, kv_heads, ffn, llama) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden) if llama else nn.LayerNorm(hidden)
        dim = hidden // heads
        angles = torch.outer(torch.arange(seq), 10000.0 ** (-torch.arange(0, dim, 2) / dim)).repeat(1, 2)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.table(tokens)
        if self.positions is not None:
            x = x + self.positions.weight
        for block in self.blocks:
            x = block(x, (self.cosine, self.sine))
        logits = F.linear(self.norm(x), self.table.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    name, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    layers, hidden, heads, kv_heads, ffn, vocabulary, seq, llama = MODELS[name]
    torch.manual_seed(1)
    model = Model(layers, hidden, heads, kv_heads, ffn, vocabulary, seq, llama).cuda()
    if llama:
        model = model.bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    compiled = torch.compile(model)
    tokens = torch.randint(vocabulary, (batch, seq), device="cuda")
    targets = torch.randint(vocabulary, (batch, seq), device="cuda")
    times = []
    for _ in range(steps):
        torch.cuda.synchronize()
        began = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16, enabled=not llama):
            loss = compiled(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    steady = sorted(times[steps // 2 :])
    step_time = steady[len(steady) // 2]
    linear = layers * (hidden * (heads + 2 * kv_heads) * (hidden // heads) + hidden * hidden + (3 if llama else 2) * hidden * ffn)
    flops = batch * seq * (6 * (linear + hidden * vocabulary) + 6 * layers * seq * hidden)
    print(json.dumps({
        "model": name, "backend": f"torch {torch.__version__} compiled", "batch": batch, "seq_len": seq, "step_time_s": step_time,
        "tokens_per_s": batch * seq / step_time, "mfu": flops / step_time / PEAK_FLOPS,
        "peak_allocated_bytes": torch.cuda.max_memory_allocated(), "last_loss": loss.item(),
    }))


if __name__ == "__main__":
    main()
