#!/usr/bin/env python3
"""The models of the executor's tests in plain PyTorch: same weights, logits of one batch and the losses of 20 AdamW steps.

    torch_reference.py --write      writes tests/reference/golden/<model>.json
    torch_reference.py --check      compares with what is there (exit 1 where it differs)

Weights and tokens come from the counter-based generator of base/prng.hpp, so that nothing but the results is stored. Needs
PyTorch 1.13 or later and numpy; prints SKIPPED: and exits 0 without them.
"""

import argparse
import json
import sys
from pathlib import Path

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(f"SKIPPED: {error}")
    sys.exit(0)

GOLDEN = Path(__file__).resolve().parent / "golden"
SAMPLES, SEQ, STEPS, WEIGHT_SCALE = 4, 24, 20, 0.12
ADAM = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
HIDDEN, HEADS, HEAD, LAYERS, VOCAB = 64, 4, 16, 2, 97
MASK = (1 << 64) - 1


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def counter_random(seed, stream, count, first=0):
    """base/prng.hpp counter_random of counters [first, first + count), as uint64."""
    key = mix(seed ^ mix((stream + 0x9E3779B97F4A7C15) & MASK))
    with np.errstate(over="ignore"):
        z = np.uint64(key) + (np.arange(first, first + count, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def name_hash(name):
    h = 0
    for c in name.encode():
        h = mix((h + c + 1) & MASK)
    return h


class Weights(dict):
    def get_tensor(self, name, *shape, start=0.0):
        if name not in self:
            u = (counter_random(1, name_hash(name), int(np.prod(shape))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
            values = start + WEIGHT_SCALE * (2 * u - 1)
            self[name] = torch.tensor(values.astype(np.float32).reshape(shape), requires_grad=True)
        return self[name]


def batch(step):
    n, first = SAMPLES * SEQ, step * SAMPLES * SEQ
    tokens = counter_random(3, 1, n, first) % np.uint64(VOCAB)
    targets = (counter_random(3, 2, n, first) % np.uint64(VOCAB)).astype(np.int64)
    at = np.arange(first, first + n)
    targets[at % 7 == 3] = -1
    return torch.tensor(tokens.astype(np.int64)).view(SAMPLES, SEQ), torch.tensor(targets)


def attention(q, k, v, causal):
    """q: [b, s, heads, d]; k, v: [b, s, kv heads, d]."""
    k = k.repeat_interleave(q.shape[2] // k.shape[2], dim=2)
    v = v.repeat_interleave(q.shape[2] // v.shape[2], dim=2)
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / HEAD**0.5
    if causal:
        scores = scores.masked_fill(torch.ones(SEQ, SEQ).triu(1).bool(), float("-inf"))
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).reshape(SAMPLES, SEQ, -1)


def heads(x):
    return x.view(SAMPLES, SEQ, -1, HEAD)


def layer_norm(w, stem, x, eps):
    return F.layer_norm(x, (HIDDEN,), w.get_tensor(stem + ".weight", HIDDEN, start=1.0), w.get_tensor(stem + ".bias", HIDDEN), eps)


def rms_norm(w, stem, x):
    return w.get_tensor(stem + ".weight", HIDDEN, start=1.0) * x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt()


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))


def gpt(w, tokens):
    table = w.get_tensor("transformer.wte.weight", VOCAB, HIDDEN)
    x = table[tokens] + w.get_tensor("transformer.wpe.weight", SEQ, HIDDEN)

    def conv1d(stem, x, n):
        return x @ w.get_tensor(stem + ".weight", x.shape[-1], n) + w.get_tensor(stem + ".bias", n)

    for i in range(LAYERS):
        stem = f"transformer.h.{i}."
        n = layer_norm(w, stem + "ln_1", x, 1e-5)
        q, k, v = conv1d(stem + "attn.c_attn", n, 3 * HIDDEN).split(HIDDEN, -1)
        x = x + conv1d(stem + "attn.c_proj", attention(heads(q), heads(k), heads(v), True), HIDDEN)
        n = layer_norm(w, stem + "ln_2", x, 1e-5)
        x = x + conv1d(stem + "mlp.c_proj", gelu_tanh(conv1d(stem + "mlp.c_fc", n, 2 * HIDDEN)), HIDDEN)
    return layer_norm(w, "transformer.ln_f", x, 1e-5) @ table.T


def rotate(x):
    """Rotary embedding, Hugging Face's halves."""
    angle = torch.arange(SEQ)[:, None].double() * 10000.0 ** (-2 * torch.arange(HEAD // 2).double() / HEAD)
    c, s = angle.cos().float()[None, :, None, :], angle.sin().float()[None, :, None, :]
    a, b = x[..., : HEAD // 2], x[..., HEAD // 2 :]
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def llama(w, tokens, experts=0):
    def linear(stem, x, n):
        return x @ w.get_tensor(stem + ".weight", n, x.shape[-1]).T

    def gated(stems, x, n):
        return linear(stems[2], F.silu(linear(stems[0], x, n)) * linear(stems[1], x, n), HIDDEN)

    x = w.get_tensor("model.embed_tokens.weight", VOCAB, HIDDEN)[tokens]
    for i in range(LAYERS):
        stem = f"model.layers.{i}."
        n = rms_norm(w, stem + "input_layernorm", x)
        q = rotate(heads(linear(stem + "self_attn.q_proj", n, HEADS * HEAD)))
        k = rotate(heads(linear(stem + "self_attn.k_proj", n, 2 * HEAD)))
        v = heads(linear(stem + "self_attn.v_proj", n, 2 * HEAD))
        x = x + linear(stem + "self_attn.o_proj", attention(q, k, v, True), HIDDEN)
        n = rms_norm(w, stem + "post_attention_layernorm", x)
        if experts == 0:
            x = x + gated([stem + "mlp." + p for p in ("gate_proj", "up_proj", "down_proj")], n, 96)
            continue
        moe = stem + "block_sparse_moe."
        probabilities = linear(moe + "gate", n, experts).softmax(-1)
        weight, chosen = probabilities.topk(2, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        y = 0
        for e in range(experts):
            share = (weight * (chosen == e)).sum(-1, keepdim=True)
            y = y + share * gated([f"{moe}experts.{e}.{p}" for p in ("w1", "w3", "w2")], n, 48)
        x = x + y
    return linear("lm_head", rms_norm(w, "model.norm", x), VOCAB)


def bert(w, tokens):
    def linear(stem, x, n):
        return F.linear(x, w.get_tensor(stem + ".weight", n, x.shape[-1]), w.get_tensor(stem + ".bias", n))

    stem = "bert.embeddings."
    table = w.get_tensor(stem + "word_embeddings.weight", VOCAB, HIDDEN)
    x = table[tokens] + w.get_tensor(stem + "position_embeddings.weight", SEQ, HIDDEN)
    x = layer_norm(w, stem + "LayerNorm", x + w.get_tensor(stem + "token_type_embeddings.weight", 2, HIDDEN)[0], 1e-12)
    for i in range(LAYERS):
        stem = f"bert.encoder.layer.{i}."
        q, k, v = (heads(linear(stem + "attention.self." + p, x, HIDDEN)) for p in ("query", "key", "value"))
        a = linear(stem + "attention.output.dense", attention(q, k, v, False), HIDDEN)
        x = layer_norm(w, stem + "attention.output.LayerNorm", x + a, 1e-12)
        m = linear(stem + "output.dense", F.gelu(linear(stem + "intermediate.dense", x, 2 * HIDDEN)), HIDDEN)
        x = layer_norm(w, stem + "output.LayerNorm", x + m, 1e-12)
    t = F.gelu(linear("cls.predictions.transform.dense", x, HIDDEN))
    return layer_norm(w, "cls.predictions.transform.LayerNorm", t, 1e-12) @ table.T + w.get_tensor("cls.predictions.bias", VOCAB)


MODELS = {"gpt": gpt, "llama": llama, "moe": lambda w, t: llama(w, t, experts=4), "bert": bert}


def reference(name):
    weights = Weights()
    model = MODELS[name]
    tokens, _ = batch(0)
    with torch.no_grad():
        logits = model(weights, tokens)[:, -1, :].reshape(-1)
    groups = [
        {"params": [p for p in weights.values() if p.dim() > 1], "weight_decay": ADAM["weight_decay"]},
        {"params": [p for p in weights.values() if p.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=ADAM["lr"], betas=ADAM["betas"], eps=ADAM["eps"])
    losses = []
    for step in range(STEPS):
        tokens, targets = batch(step)
        loss = F.cross_entropy(model(weights, tokens).view(-1, VOCAB), targets, ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"model": name, "torch": torch.__version__, "logits": [round(x, 6) for x in logits.tolist()], "losses": [round(x, 6) for x in losses]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    wrong = 0
    for name in MODELS:
        got = reference(name)
        path = GOLDEN / f"{name}.json"
        if arguments.write:
            path.write_text(json.dumps(got) + "\n")
        kept = json.loads(path.read_text())
        logits = max(abs(a - b) for a, b in zip(got["logits"], kept["logits"]))
        losses = max(abs(a - b) for a, b in zip(got["losses"], kept["losses"]))
        print(f"{name}: PyTorch {torch.__version__} against the kept {kept['torch']}: logits differ by {logits:.1e}, losses by {losses:.1e}")
        wrong += logits > 1e-4 or losses > 1e-3
    return 1 if wrong and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
