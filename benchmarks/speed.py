"""Speed of training and scoring as a ratio to the literal pipeline (literal.py), measured in the same run.

    python benchmarks/speed.py              # both tables, one and two threads, a few minutes

Every figure is the median over interleaved repetitions. "per row and mask" is one reconstruction; "per member" is a
training step of the stack divided by its members. The share of peak counts the multiplications and additions of the
algorithm (attention, projections, feed-forward) against a large matrix product measured in the same run.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
import torch

import literal
from nptad.nn.loss import cell_losses, masked_mean
from nptad.nn.masks import mask_bank
from nptad.nn.model import NPT
from nptad.nn.rng import MemberRandom
from nptad.scoring.score import prepare_member, score_rows
from nptad.settings import Settings, default_settings
from nptad.tables.layout import CellLayout
from nptad.training.optim import FlatParameters, Lamb, Lookahead

DATA = Path(os.environ.get("NPTAD_DATA", Path(__file__).parents[2] / "shared" / "data"))
RESULTS = Path(__file__).parents[1] / "results" / "speed.md"
SHAPES = {"wine": (59, 70, 13, 8), "breastw": (222, 461, 9, 16), "thyroid": (1839, 1933, 6, 16)}  # train, test, d, e
MEMBERS = {"wine": 8, "breastw": 8, "thyroid": 1}


def load(dataset: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Standardised training and test rows, or random ones of the same shape where the data are not at hand."""
    n_train, n_test, n_features, _ = SHAPES[dataset]
    path = DATA / f"{dataset}.npz"
    if not path.exists():
        rows = np.random.default_rng(0).normal(size=(n_train + n_test, n_features))
        return torch.tensor(rows[:n_train], dtype=torch.float32), torch.tensor(rows[n_train:], dtype=torch.float32)
    with np.load(path, allow_pickle=False) as file:
        x, y = file["X"].astype(np.float64), file["y"]
    normal = np.random.default_rng(0).permutation(np.flatnonzero(y == 0))
    train = x[normal[: len(normal) // 2]]
    test = np.concatenate([x[normal[len(normal) // 2 :]], x[y == 1]])
    mean, scale = train.mean(0), np.where(train.std(0) > 0, train.std(0), 1)
    return tuple(torch.tensor((part - mean) / scale, dtype=torch.float32) for part in (train, test))


def seconds(work: Callable[[], object], at_least: float = 0.4) -> float:
    """Median time of a call."""
    work()
    times: list[float] = []
    while len(times) < 5 or (sum(times) < at_least and len(times) < 200):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return median(times)


def matmul_peak() -> float:
    """Floating point operations per second of a large matrix product."""
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    return 2 * 2048**3 / seconds(lambda: a @ b)


def literal_times(train: torch.Tensor, test: torch.Tensor, embedding_dim: int) -> tuple[float, float]:
    """Seconds of a training step, and per row and mask when scoring."""
    torch.manual_seed(0)
    model = literal.LiteralNPT(train.shape[1], embedding_dim)
    optimiser = literal.LiteralLamb(list(model.parameters()), lr=0.01)
    step = seconds(lambda: literal.train_step(model.train(), optimiser, train, 0.15))
    rows = test[: 40 if len(train) < 1000 else 10]
    model.eval()
    return step, seconds(lambda: literal.score_mask(model, train, rows, (0,))) / len(rows)


def our_times(train: torch.Tensor, test: torch.Tensor, settings: Settings, members: int) -> tuple[float, float]:
    """The same of the library: seconds per member and step, and per row and mask."""
    layout = CellLayout(train.shape[1], ())
    random = MemberRandom(list(range(members)))
    model = NPT(layout, settings, random)
    flat = FlatParameters(model.parameters())
    lamb, lookahead = Lamb(flat), Lookahead(flat)
    x = train.expand(members, *train.shape).contiguous()

    def step() -> None:
        hidden = random.bernoulli(tuple(x.shape[1:]), settings.mask_rate)
        flat.grad.zero_()
        masked_mean(cell_losses(model(x, hidden), x, layout, len(train)), hidden).sum().backward()
        flat.clip_gradients(1.0)
        lamb.step(1e-3)
        lookahead.step()

    model.train()
    per_step = seconds(step) / members
    masks = mask_bank(layout.n_features, settings.mask_sizes, settings.max_masks, seed=0)
    member = prepare_member(model.member(0), train, len(train), torch.ones(len(masks)))
    rows = test[: max(1, 20_000 // len(masks))]
    return per_step, seconds(lambda: score_rows(member, rows, masks, settings.aggregation)) / len(rows) / len(masks)


def operations(settings: Settings, n_features: int, n_context: int, wanted: int) -> float:
    """Floating point operations of one row's reconstruction; ``wanted`` cells come out of the last block."""
    dim = settings.embedding_dim
    width = n_features * dim
    total = 0.0
    for layer in range(settings.n_layers):
        if layer % 2 == 1 or settings.row_attention == "none":
            cells = wanted if layer == settings.n_layers - 1 else n_features
            total += 2 * 2 * n_features * dim**2 + 2 * 11 * cells * dim**2 + 4 * cells * n_features * dim
        elif settings.row_attention == "full":
            total += 2 * 13 * width**2 + 4 * n_context * width
        else:
            total += 4 * width * settings.rank + 22 * n_features * dim**2
            total += 2 * n_context * (settings.rank + width)
    return total


def speed_table(threads: int) -> Iterator[str]:
    """Ours against literal for three data sets, library defaults and the paper's settings."""
    torch.set_num_threads(threads)
    peak = matmul_peak()
    for dataset, (_, _, n_features, paper_dim) in SHAPES.items():
        train, test = load(dataset)
        for name, settings in (
            ("default", default_settings(len(train), n_features)),
            ("paper", Settings(embedding_dim=paper_dim)),
        ):
            literal_step, literal_score = literal_times(train, test, settings.embedding_dim)
            step, score = our_times(train, test, settings, MEMBERS[dataset])
            step_work = 3 * len(train) * operations(settings, n_features, len(train), n_features)
            score_work = operations(settings, n_features, len(train), max(settings.mask_sizes))
            yield (
                f"| {threads} | {dataset} | {name}, {settings.row_attention}, E = {settings.embedding_dim} "
                f"| {1e3 * literal_step:.1f} | {1e3 * step:.2f} | **{literal_step / step:.1f}x** "
                f"| {step_work / step / peak:.0%} | {1e6 * literal_score:.0f} | {1e6 * score:.1f} "
                f"| **{literal_score / score:.0f}x** | {score_work / score / peak:.0%} |"
            )


def main() -> None:
    """Print both tables and keep them in results/speed.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    arguments = parser.parse_args()
    lines = []

    def show(*new: str) -> None:
        lines.extend(new)
        print(*new, sep="\n", flush=True)

    show(
        "# Speed against the literal pipeline",
        "",
        "Generated by `python benchmarks/speed.py`. Training is per member of a stack of 8 (thyroid: 1), scoring per",
        "row and mask. Ratios are to `benchmarks/literal.py` in the same run with the same threads; peak is a large",
        f"matrix product. torch {torch.__version__}, {os.cpu_count()} cores, {platform.machine()}.",
        "",
        "| threads | data | settings | literal step, ms | ours, ms | ratio | of peak "
        "| literal score, us | ours, us | ratio | of peak |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    )
    for threads in arguments.threads:
        for line in speed_table(threads):
            show(line)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
