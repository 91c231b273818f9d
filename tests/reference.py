"""The model and the score written straight from the equations: loops, float64, one row and one member at a time.

Slow and obvious; the oracle for everything fast. Equation names refer to the paper's section 3 and appendices A, B.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import erf, exp, log, sqrt

import numpy as np

from nptad.nn.model import NPT

Weights = dict[str, np.ndarray]
Prediction = float | list[float]
"""Of a cell: a number, or the probabilities of its categories."""


def softmax(logits: Sequence[float]) -> list[float]:
    shifted = [exp(v - max(logits)) for v in logits]
    return [v / sum(shifted) for v in shifted]


def layer_norm(row: np.ndarray, gain: np.ndarray, bias: np.ndarray) -> np.ndarray:
    mean = row.mean()
    return (row - mean) / sqrt(((row - mean) ** 2).mean() + 1e-5) * gain + bias


def gelu(values: np.ndarray) -> np.ndarray:
    return np.array([0.5 * v * (1 + erf(v / sqrt(2))) for v in values])


def self_attention(
    queries: list[np.ndarray], keys: list[np.ndarray], values: list[np.ndarray], allowed: np.ndarray
) -> list[np.ndarray]:
    """One head: softmax(Q K^T / sqrt(h_k)) V, item i attending to the items j with allowed[i][j]."""
    out = []
    for i, q in enumerate(queries):
        reachable = [j for j in range(len(keys)) if allowed[i][j]]
        weights = softmax([float(q @ keys[j]) / sqrt(len(q)) for j in reachable])
        out.append(np.sum([w * values[j] for w, j in zip(weights, reachable, strict=True)], axis=0))
    return out


def rest_of_block(block: Weights, item: np.ndarray, attended: np.ndarray) -> np.ndarray:
    """MHSA(H) = Res(H) + rFF(LN(Res(H))) for one item, its heads already concatenated."""
    res = item @ block["w_res"] + attended @ block["w_o"]
    normed = layer_norm(res, block["norm_out_gain"], block["norm_out_bias"])
    return res + gelu(normed @ block["w_up"] + block["b_up"]) @ block["w_down"] + block["b_down"]


class ReferenceNPT:
    """One member of a stack, its weights taken as float64 arrays."""

    def __init__(self, model: NPT, k: int) -> None:
        self.layout, self.settings = model.layout, model.settings
        weights = {name: value[k].double().numpy() for name, value in model.state_dict().items()}
        self.top = {name: value for name, value in weights.items() if not name.startswith("blocks.")}
        self.blocks = []
        for layer in range(self.settings.n_layers):
            prefix = f"blocks.{layer}."
            self.blocks.append({n.removeprefix(prefix): v for n, v in weights.items() if n.startswith(prefix)})

    def embed(self, row: np.ndarray, hidden: np.ndarray) -> np.ndarray:
        """Appendix B: ((1 - m) encoded, m) through Linear(e_j + 1, e), plus index and type embeddings."""
        cells = []
        for j, value in enumerate(row):
            masked = hidden[j] or np.isnan(value)
            is_category = j >= self.layout.n_numeric
            cell = (
                self.top["in_bias"][j] + self.top["index_embedding"][j] + self.top["type_embedding"][int(is_category)]
            )
            if masked:
                cell = cell + self.top["in_mask"][j]
            elif not is_category:
                cell = cell + value * self.top["in_numeric"][j]
            elif value >= 0:
                first = sum(self.layout.cardinalities[: j - self.layout.n_numeric])
                cell = cell + self.top["in_category"][first + int(value)]
            cells.append(cell)
        return np.array(cells)

    def forward(self, rows: np.ndarray, hidden: np.ndarray, allowed: np.ndarray) -> list[list[Prediction]]:
        """Predictions of all rows; row i may attend to row j where allowed[i][j]."""
        cells = np.array([self.embed(row, mask) for row, mask in zip(rows, hidden, strict=True)])
        for layer, block in enumerate(self.blocks):
            if layer % 2 == 1 or self.settings.row_attention == "none":
                cells = np.array([self.between_cells(block, row) for row in cells])
            elif self.settings.row_attention == "full":
                cells = self.between_rows(block, cells, allowed)
            else:
                cells = self.between_rows_low_rank(block, cells, allowed)
        return [self.predict(row) for row in cells]

    def between_cells(self, block: Weights, cells: np.ndarray) -> np.ndarray:
        everything = np.ones((len(cells), len(cells)), dtype=bool)
        return np.array(self.multi_head(block, cells, everything))

    def between_rows(self, block: Weights, cells: np.ndarray, allowed: np.ndarray) -> np.ndarray:
        flat = cells.reshape(len(cells), -1)
        return np.array(self.multi_head(block, flat, allowed)).reshape(cells.shape)

    def multi_head(self, block: Weights, items: np.ndarray, allowed: np.ndarray) -> list[np.ndarray]:
        normed = [layer_norm(item, block["norm_in_gain"], block["norm_in_bias"]) for item in items]
        width = items.shape[1] // self.settings.n_heads
        heads = []
        for head in range(self.settings.n_heads):
            part = slice(head * width, (head + 1) * width)
            q, k, v = ([item @ block[name][:, part] for item in normed] for name in ("w_q", "w_k", "w_v"))
            heads.append(self_attention(q, k, v, allowed))
        attended = [np.concatenate([head[i] for head in heads]) for i in range(len(items))]
        return [rest_of_block(block, item, mixed) for item, mixed in zip(items, attended, strict=True)]

    def between_rows_low_rank(self, block: Weights, cells: np.ndarray, allowed: np.ndarray) -> np.ndarray:
        """design.md, section 4: small queries and keys of the whole row; everything else cell by cell."""
        n_rows, n_features, dim = cells.shape
        heads = self.settings.n_heads
        normed = [layer_norm(row.ravel(), block["norm_in_gain"], block["norm_in_bias"]) for row in cells]
        attended = np.zeros_like(cells)
        for head in range(heads):
            keys_part = slice(head * self.settings.rank // heads, (head + 1) * self.settings.rank // heads)
            part = slice(head * dim // heads, (head + 1) * dim // heads)
            q, k = ([row @ block[name][:, keys_part] for row in normed] for name in ("w_q", "w_k"))
            v = [
                np.concatenate([cell @ block["w_v"][:, part] for cell in row.reshape(n_features, dim)])
                for row in normed
            ]
            for i, mixed in enumerate(self_attention(q, k, v, allowed)):
                attended[i][:, part] = mixed.reshape(n_features, -1)
        return np.array(
            [[rest_of_block(block, cells[i, j], attended[i, j]) for j in range(n_features)] for i in range(n_rows)]
        )

    def predict(self, cells: np.ndarray) -> list[Prediction]:
        """A number for each numeric cell, a list of class probabilities for each categorical one."""
        out: list[Prediction] = []
        for j, cell in enumerate(cells):
            if j < self.layout.n_numeric:
                out.append(float(cell @ self.top["out_numeric"][j] + self.top["out_numeric_bias"][j]))
            else:
                c = j - self.layout.n_numeric
                logits = cell @ self.top["out_category"][c] + self.top["out_category_bias"][c]
                out.append(softmax(list(logits[: self.layout.cardinalities[c]])))
        return out

    def cell_loss(self, predicted: Prediction, value: float, n_train: int) -> float:
        """Squared difference or cross-entropy (section 3.3); an unseen category is at least as bad as any other."""
        if not isinstance(predicted, list):
            return (predicted - value) ** 2
        if value < 0:
            return max(-log(min(predicted)), 2 * log(n_train + 1))
        return -log(predicted[int(value)])

    def score(
        self,
        context: np.ndarray,
        row: np.ndarray,
        sizes: Sequence[int],
        n_train: int,
        left_out: int | None = None,
        aggregation: str = "mean",
        nearest_scale: float = 1.0,
    ) -> float:
        """The NPT-AD score of one row: context rows see context rows, the row sees them and itself.

        ``left_out`` is the context entry the row must not see, ``nearest_scale`` the baseline of the nearest distance.
        """
        n_context, n_features = context.shape
        rows = np.vstack([context, row])
        allowed = np.zeros((n_context + 1, n_context + 1), dtype=bool)
        allowed[:, :n_context] = True
        allowed[n_context, n_context] = True
        if left_out is not None:
            allowed[n_context, left_out] = False
        losses = []
        for size in sizes:
            for subset in itertools.combinations(range(n_features), size):
                targets = [j for j in subset if not np.isnan(row[j])]
                if not targets:
                    continue
                hidden = np.zeros(rows.shape, dtype=bool)
                hidden[n_context, list(subset)] = True
                predicted = self.forward(rows, hidden, allowed)[n_context]
                cells = [self.cell_loss(predicted[j], row[j], n_train) for j in targets]
                if aggregation == "nearest":
                    cells = [1 + log(loss) if loss > 1 else loss for loss in cells]
                losses.append(sum(cells) / len(targets) * size)
        if not losses:
            return 0.0
        mean = sum(losses) / len(losses)
        if aggregation == "nearest":
            nearest = min(self.distance(row, context, i) for i in range(n_context) if i != left_out)
            return sqrt(mean**2 + (nearest / nearest_scale) ** 4)
        return {"mean": mean, "max": max(losses)}[aggregation]

    def distance(self, row: np.ndarray, context: np.ndarray, i: int) -> float:
        """Gower's distance from context row i, a mean over the cells that the row has."""
        differences = [
            self.difference(j, value, context[:, j], i) for j, value in enumerate(row) if not np.isnan(value)
        ]
        return sum(differences) / len(differences)

    def difference(self, j: int, value: float, column: Sequence[float] | np.ndarray, i: int) -> float:
        """Share of the range, if above 1; 0 or 1 for categories; for a missing cell the mean over the others."""
        known = [other for other in column if not np.isnan(other)]
        if np.isnan(column[i]):
            return sum(self.difference(j, value, known, k) for k in range(len(known))) / max(1, len(known))
        if j >= self.layout.n_numeric:
            return float(value != column[i])
        return abs(value - column[i]) / max(max(known) - min(known), 1.0)
