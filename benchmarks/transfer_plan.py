"""What a plan costs: nothing in training, seconds to make for a model of seven billion parameters.

    python benchmarks/transfer_plan.py [--width 512] [--depth 8] [--tokens 1024] [--rounds 15] [--threads 2]
    [--skip-seven]

Training: one model of the Llama family under AdamW with the plan's parameter groups, its copy with the two usual ones
(weights decay, gains do not); a round times a whole step of one and then of the other, the order changing from round
to round, for each way torch has to step: one by one, foreach, fused. `ratio` is the median over rounds of planned over
plain; at most 1.02 is allowed. `optimizer` is the same for the optimizer's step alone.
Planning: from (width 256, depth 4) to (4096, 32), 6.7 billion parameters on the meta device, in a process of its own;
at most 10 s and 1 GB above what torch and transformers hold before.
"""

from __future__ import annotations

import argparse
import copy
import resource
import subprocess
import sys
import time
from statistics import median

import torch

import deeplimits as dl

ALLOWED, SECONDS, BYTES = 1.02, 10.0, 1e9
HEAD = 64
SEVEN = {"base": {"width": 256, "depth": 4}, "target": {"width": 4096, "depth": 32}}
WAYS = {"one by one": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def build(width: int, depth: int, words: int = 32_000):
    from transformers import LlamaConfig, LlamaForCausalLM

    heads = width // HEAD
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=11 * width // 4,
        num_hidden_layers=depth,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        tie_word_embeddings=False,
    )
    return LlamaForCausalLM(config)


def seven() -> None:
    """Plan and print seconds, processor seconds, bytes, parameters and groups."""
    build(HEAD, 1, 8)  # what is imported on the way is not what a plan costs
    before, start, cpu = peak(), time.perf_counter(), time.process_time()
    plan = dl.transfer(build, **SEVEN)
    took, busy, held = time.perf_counter() - start, time.process_time() - cpu, peak() - before
    with torch.device("meta"):
        model = build(**SEVEN["target"])
    count = sum(parameter.numel() for parameter in model.parameters())
    print(took, busy, held, count, len(plan.param_groups(model, lr=1e-3, weight_decay=0.1)))


def peak() -> int:
    """Return the most memory this process has held, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def pair(width: int, depth: int, words: int, options: dict) -> list:
    """Return [(model, optimizer)], planned and plain."""
    small, large = {"width": width // 2, "depth": depth // 2}, {"width": width, "depth": depth}
    plan = dl.transfer(lambda width, depth: build(width, depth, words), small, large)
    torch.manual_seed(0)
    model = build(width, depth, words)
    plain = copy.deepcopy(model)
    plan.apply(model, initial=True)
    groups = plan.param_groups(model, lr=1e-4, weight_decay=0.1)
    usual = [
        {"params": [p for p in plain.parameters() if (p.dim() > 1) == big], "weight_decay": decay}
        for big, decay in ((True, 0.1), (False, 0.0))
    ]
    print(f"{len(groups)} groups with the plan, {len(usual)} without")
    return [(model, torch.optim.AdamW(groups, **options)), (plain, torch.optim.AdamW(usual, lr=1e-4, **options))]


def step(model, optimizer, ids) -> tuple[float, float]:
    """Take a step; return its seconds, and those of the optimizer alone."""
    start = time.perf_counter()
    optimizer.zero_grad()
    model(input_ids=ids, labels=ids).loss.backward()
    between = time.perf_counter()
    optimizer.step()
    end = time.perf_counter()
    return end - start, end - between


def training(options: argparse.Namespace, way: str) -> None:
    ids = torch.randint(1000, (options.tokens // 128, 128))
    both = pair(options.width, options.depth, 1000, WAYS[way])
    found = []
    for number in range(-2, options.rounds):
        order = both if number % 2 else both[::-1]
        taken = [step(*one, ids) for one in order]
        planned, plain = taken if number % 2 else taken[::-1]
        found += [(planned[0] / plain[0], planned[1] / plain[1], plain[0])] if number >= 0 else []  # two warm up
    whole, alone, seconds = (median(column) for column in zip(*found, strict=True))
    print(f"{way}: step {1000 * seconds:.0f} ms, ratio {whole:.3f} (allowed {ALLOWED}), optimizer {alone:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--skip-seven", action="store_true")
    parser.add_argument("--seven", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.seven:
        return seven()
    if not options.skip_seven:
        run = subprocess.run([sys.executable, __file__, "--seven"], capture_output=True, text=True, check=True)
        took, busy, held, count, groups = (float(word) for word in run.stdout.split())
        print(f"planning {count / 1e9:.1f} billion parameters: {took:.1f} s (allowed {SECONDS:g}), {busy:.1f} s of")
        print(f"processor time, {held / 1e6:.0f} MB (allowed {BYTES / 1e6:.0f}), {groups:.0f} groups")
    for way in WAYS:
        training(options, way)
    return None


if __name__ == "__main__":
    main()
