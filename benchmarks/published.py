"""What makes the published figures: from the paper's text to the published code's behaviour, one thing at a time.

    python benchmarks/published.py                      # everything that is not in results/published.csv yet
    python benchmarks/published.py wine --splits 0 1    # some of it

The model is trained and scored as the paper words it, and as its authors' code does in one respect, or in all. Only the
behaviour is theirs; the code is ours. The larger sets have fewer steps, smaller batches and no attention dropout
(``CUTS``), the same for all variants. A run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
from collections.abc import Callable, Iterable
from functools import partial
from math import cos, pi
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nptad.bench.datasets import DATASETS, load
from nptad.bench.presets import MAX_AGGREGATION, SCALED_MASKS, paper_settings, paper_table
from nptad.bench.protocol import Split, metrics, split_table
from nptad.io.atomic import replacing
from nptad.nn.attention import attention_between_cells
from nptad.nn.loss import cell_losses, masked_mean
from nptad.nn.masks import mask_bank
from nptad.nn.model import NPT, Block, CellBlock, Cells, Pass
from nptad.nn.rng import MemberRandom, spawn_seeds
from nptad.settings import Settings
from nptad.tables.encode import encode
from nptad.tables.layout import CellLayout
from nptad.tables.schema import learn_schema
from nptad.training.loop import GRADIENT_LIMIT
from nptad.training.optim import FlatParameters, Lamb, Lookahead, flat_then_anneal

RESULTS = Path(__file__).parents[1] / "results"
SPLITS = (0, 1, 2)
FIELDS = ["dataset", "variant", "split", "f1", "auroc"]

CUTS: dict[str, dict[str, object]] = {
    "wine": {},
    "vertebral": {},
    "satimage2": {"attention_dropout": 0, "batch_size": 1024},
    "thyroid": {"attention_dropout": 0, "n_steps": 500},
    "pendigits": {"attention_dropout": 0, "batch_size": 1024, "n_steps": 300, "mask_sizes": (1,)},
    "optdigits": {"attention_dropout": 0, "batch_size": 256, "n_steps": 150},
}
"""The data sets, cheapest first, and the paper's settings that are too much for two cores."""
SMALL = ("wine", "vertebral")
TRAINING = {
    "cosine": "the learning rate falls as a cosine from the first step, instead of after 70 % of them",
    "clamp": "each gradient is clamped to 1, instead of their norm",
    "raw_values": "keys and values come from the block's input as it is, queries from its LayerNorm",
    "wide_scale": "logits are divided by sqrt(D E) (between cells sqrt(E)), instead of by the root of a head's width",
    "noise": "a tenth of the masked cells is replaced by noise N(0, 1) and not marked as masked",
}
SCORING = {
    "z_scores": "the losses under each mask are standardised over the test rows",
    "together": "test rows see one another and training rows see them: batches of 10 test rows in random order on "
    f"{' and '.join(SMALL)}, of 2,000 elsewhere",
}
NOISE_SHARE = 0.1


def cosine(progress: float) -> float:
    """Factor on the learning rate, from 1 down to 0."""
    return 0.5 * (1 + cos(pi * progress))


def make_model(n_features: int, settings: Settings, seeds: list[int], switches: Iterable[str] = ()) -> NPT:
    """The library's model, with attention that behaves as the switches say."""
    model = NPT(CellLayout(n_features, ()), settings, MemberRandom(seeds))
    changed = {"raw_values", "wide_scale"} & set(switches)
    if changed:
        for block in model.blocks:
            block.forward = partial(changed_block, block, changed)
    return model


def changed_block(block: Block, switches: set[str], cells: Cells, run: Pass) -> Cells:
    """A block of full row attention, or of attention between cells, with other keys, values or logits."""
    between_cells = isinstance(block, CellBlock)
    items = cells.transpose(1, 2).contiguous().flatten(1, 2) if between_cells else cells.flatten(2)
    normed = torch.addcmul(
        block.norm_in_bias[:, None], F.layer_norm(items, items.shape[-1:]), block.norm_in_gain[:, None]
    )
    source = items if "raw_values" in switches else normed
    heads = block.n_heads
    # A head has a heads-th of the width, so sqrt(width) is sqrt(heads) times its root.
    q = torch.bmm(normed, block.w_q) / (heads**0.5 if "wide_scale" in switches else 1.0)
    k, v = (torch.bmm(source, weight) for weight in (block.w_k, block.w_v))
    if between_cells:
        n_rows = cells.shape[1]
        parts = (t.transpose(1, 2).unflatten(2, (-1, n_rows)).unflatten(1, (heads, -1)) for t in (q, k, v))
        mixed = attention_between_cells(*parts, run.drop_attention).reshape(len(cells), items.shape[2], -1)
        result = block._residual_and_feed_forward(items, mixed.transpose(1, 2), run.drop)
        return result.unflatten(1, (-1, n_rows)).transpose(1, 2)
    parts = (t.unflatten(2, (heads, -1)).transpose(1, 2) for t in (q, k, v))
    mixed = run.attend_rows(*parts).transpose(1, 2).flatten(2)
    return block._residual_and_feed_forward(items, mixed, run.drop).view_as(cells)


def train(model: NPT, x: Tensor, switches: Iterable[str] = ()) -> None:
    """The library's training loop, with what the switches change."""
    settings, random, switches = model.settings, model.random, set(switches)
    schedule: Callable[[float], float] = cosine if "cosine" in switches else flat_then_anneal
    flat = FlatParameters(model.parameters())
    lamb, lookahead = Lamb(flat), Lookahead(flat)
    n_rows = x.shape[1]
    batch_size = min(settings.batch_size or n_rows, n_rows)
    order, used = random.permutations(n_rows), 0
    model.train()
    for step in range(settings.n_steps):
        batch = x
        if batch_size < n_rows:
            if used + batch_size > n_rows:
                order, used = random.permutations(n_rows), 0
            rows = order[:, used : used + batch_size]
            batch = torch.take_along_dim(x, rows.unsqueeze(-1), dim=1)
            used += batch_size
        hidden = random.bernoulli(tuple(batch.shape[1:]), settings.mask_rate)
        shown, marked = batch, hidden
        if "noise" in switches:
            noisy = hidden & random.bernoulli(tuple(batch.shape[1:]), NOISE_SHARE)
            normal = torch.special.ndtri(random.uniform(tuple(batch.shape[1:]), 1e-6, 1 - 1e-6))
            shown, marked = torch.where(noisy, normal, batch), hidden & ~noisy
        flat.grad.zero_()
        losses = cell_losses(model(shown, marked), batch, model.layout, n_rows)
        masked_mean(losses, hidden).sum().backward()
        if "clamp" in switches:
            flat.grad.clamp_(-GRADIENT_LIMIT, GRADIENT_LIMIT)
        else:
            flat.clip_gradients(GRADIENT_LIMIT)
        lamb.step(settings.learning_rate * schedule(step / settings.n_steps))
        lookahead.step()
    flat.release()
    model.eval()


@torch.no_grad()
def losses_apart(model: NPT, context: Tensor, rows: Tensor, masks: Tensor) -> Tensor:
    """Loss of the masked cells under each mask, (K, rows, masks); rows see the context and themselves."""
    cache = model.context(context)
    every_cell = torch.arange(rows.shape[2]).expand(*rows.shape)
    return _losses(lambda hidden: model.query(rows, hidden, cache, every_cell), model, rows, masks)


@torch.no_grad()
def losses_together(model: NPT, context: Tensor, rows: Tensor, masks: Tensor, batch_size: int) -> Tensor:
    """The same where the rows of a batch and the context all see one another."""
    order = torch.from_numpy(np.random.default_rng(0).permutation(rows.shape[1]))
    unmasked = torch.zeros_like(context, dtype=torch.bool)
    found = []
    for chunk in order.split(batch_size):
        batch = rows[:, chunk]
        everything = torch.cat((batch, context), dim=1)
        found.append(
            _losses(lambda hidden, x=everything: model(x, torch.cat((hidden, unmasked), dim=1)), model, batch, masks)
        )
    return torch.cat(found, dim=1)[:, order.argsort()]


def _losses(reconstruct: Callable[[Tensor], object], model: NPT, rows: Tensor, masks: Tensor) -> Tensor:
    columns = []
    for mask in masks:
        numeric = reconstruct(mask.expand(*rows.shape)).numeric[:, : rows.shape[1]]
        columns.append(((numeric - rows) ** 2)[..., mask].sum(-1))
    return torch.stack(columns, dim=-1)


def standardised(losses: Tensor) -> Tensor:
    """z-scores of each mask over the test rows."""
    return (losses - losses.mean(1, keepdim=True)) / losses.std(1, keepdim=True).clamp(min=1e-12)


def plan(wanted: set[str]) -> list[tuple[tuple[str, ...], list[str]]]:
    """The trainings that are needed: their switches, and the variants that are scored with each."""
    trainings: list[tuple[tuple[str, ...], list[str]]] = [((), ["text", *SCORING])]
    trainings += [((switch,), [switch]) for switch in TRAINING]
    trainings.append((tuple(TRAINING), ["code"]))
    kept = [(switches, [variant for variant in variants if variant in wanted]) for switches, variants in trainings]
    return [(switches, variants) for switches, variants in kept if variants]


def settings_of(dataset: str, n_train: int) -> Settings:
    """The paper's settings with this script's cuts."""
    return dataclasses.replace(paper_settings(dataset, n_train), **CUTS[dataset])


def run(dataset: str, splits: list[int], variants: set[str], keep: Callable[[dict[str, object]], None]) -> None:
    """Train and score some variants on some splits, side by side."""
    tables = [split_table(load(dataset), split) for split in splits]
    x, rows = _encoded(tables)
    settings = settings_of(dataset, x.shape[1])
    masks = mask_bank(x.shape[2], settings.mask_sizes, settings.max_masks, seed=0)
    seeds = [spawn_seeds(split, 3)[2] for split in splits]  # those of `nptad bench run`
    for switches, scored in plan(variants):
        model = make_model(x.shape[2], settings, seeds, switches)
        train(model, x, switches)
        apart = losses_apart(model, x, rows, masks) if set(scored) & {"text", "z_scores", *TRAINING} else None
        for variant in scored:
            losses = apart
            if variant in ("together", "code"):
                losses = losses_together(model, x, rows, masks, 10 if dataset in SMALL else 2000)
            if variant == "z_scores" or (variant == "code" and dataset in SCALED_MASKS):
                losses = standardised(losses)
            take_max = variant == "code" and dataset in MAX_AGGREGATION
            scores_of_splits = losses.amax(-1) if take_max else losses.mean(-1)
            for split, table, scores in zip(splits, tables, scores_of_splits.numpy(), strict=True):
                found = metrics(table.truth, scores)
                keep(
                    {"dataset": dataset, "variant": variant, "split": split, "f1": found["f1"], "auroc": found["auroc"]}
                )


def _encoded(tables: list[Split]) -> tuple[Tensor, Tensor]:
    """Standardised training and test rows of several splits."""
    encoded = []
    for table in tables:
        schema = learn_schema(table.train, table.uses)
        encoded.append((encode(schema, table.train), encode(schema, table.test)))
    train_rows, test_rows = (torch.from_numpy(np.stack(part)) for part in zip(*encoded, strict=True))
    return train_rows, test_rows


def read_results() -> list[dict[str, str]]:
    """The rows of the result file so far."""
    path = RESULTS / "published.csv"
    if not path.exists():
        return []
    with path.open() as file:
        return list(csv.DictReader(file))


def write_results(rows: list[dict[str, object]]) -> None:
    """Write the result file and the page anew."""
    with replacing(RESULTS / "published.csv") as temporary, temporary.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    with replacing(RESULTS / "published.md") as temporary:
        temporary.write_text(page(read_results()), encoding="utf-8")


def page(rows: list[dict[str, str]]) -> str:
    """The differences from the text for each data set and variant, and which are more than two standard errors."""
    f1 = {(row["dataset"], row["variant"], row["split"]): float(row["f1"]) for row in rows}
    variants = [*TRAINING, *SCORING, "code"]
    lines = [
        "# From the paper's text to the published code",
        "",
        "Generated by `python benchmarks/published.py`. F1 in % of NPT-AD as the paper words it (text), and how much",
        "F1 changes when one thing is done as in the published code, or everything (code; z-scores and the largest "
        "loss",
        "only on the sets where the authors' scripts take them): mean and standard error of",
        f"the differences on the same {len(SPLITS)} splits. Bold: more than two standard errors, and more than one",
        "point. The published figures are means of 20 runs on one split.",
        "",
        f"| data set | splits | text | {' | '.join(variants)} | published |",
        "|---" + "|---:" * (len(variants) + 3) + "|",
    ]
    moved: dict[str, list[str]] = {variant: [] for variant in variants}
    for dataset in CUTS:
        splits = sorted({split for name, variant, split in f1 if (name, variant) == (dataset, "text")})
        if not splits:
            continue
        cells = []
        for variant in variants:
            shared = [split for split in splits if (dataset, variant, split) in f1]
            change = np.array([f1[dataset, variant, split] - f1[dataset, "text", split] for split in shared])
            if len(change) < 2:
                cells.append("")
                continue
            mean, error = change.mean(), change.std(ddof=1) / len(change) ** 0.5
            cells.append(f"{mean:+.1f} ± {error:.1f}")
            if abs(mean) > max(2 * error, 1.0):
                cells[-1] = f"**{cells[-1]}**"
                moved[variant].append(f"{dataset} {mean:+.1f}")
        text = np.mean([f1[dataset, "text", split] for split in splits])
        published = paper_table("f1")[dataset]["npt_ad"]
        lines.append(f"| {dataset} | {len(splits)} | {text:.1f} | {' | '.join(cells)} | {published} |")
    lines += ["", "What moves F1, and where:", ""]
    lines += [f"* {variant}: {', '.join(moved[variant]) or 'nowhere'}" for variant in variants]
    lines += ["", "What the names mean:", ""]
    lines += [f"* {name}: {meaning}" for name, meaning in {**TRAINING, **SCORING}.items()]
    lines += ["", "Cuts, the same for all variants:", ""]
    for dataset, cuts in CUTS.items():
        paper = paper_settings(dataset, _n_train(dataset))
        said = [f"{name} {value} instead of {getattr(paper, name)}" for name, value in cuts.items()]
        lines.append(f"* {dataset}: {', '.join(said) or 'none'}")
    return "\n".join(lines) + "\n"


def _n_train(dataset: str) -> int:
    return (DATASETS[dataset].n - DATASETS[dataset].anomalies) // 2


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=list(CUTS), help=", ".join(CUTS))
    parser.add_argument("--splits", nargs="*", type=int, default=list(SPLITS))
    arguments = parser.parse_args()
    for dataset in arguments.datasets:
        stacks = [arguments.splits] if dataset in SMALL else [[split] for split in arguments.splits]
        for splits in stacks:
            keep_missing(dataset, splits)


def keep_missing(dataset: str, splits: list[int]) -> None:
    """Run the variants that have no result yet on these splits."""
    done = {(row["dataset"], row["variant"], int(row["split"])) for row in read_results()}
    variants = ("text", *TRAINING, *SCORING, "code")
    missing = {variant for variant in variants if any((dataset, variant, split) not in done for split in splits)}

    def keep(row: dict[str, object]) -> None:
        print(row, flush=True)
        others = [old for old in read_results() if any(str(row[name]) != old[name] for name in FIELDS[:3])]
        write_results([*others, row])

    if missing:
        run(dataset, splits, missing, keep)


if __name__ == "__main__":
    main()
