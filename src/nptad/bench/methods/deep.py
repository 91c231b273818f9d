"""What the deep baselines share: seeding, the mini-batch loop, a progress bar, scoring in chunks.

A method is a subclass of :class:`DeepBaseline`, with its network, its loss on a batch and its score of rows. Everything
that methods need not do differently is here.

The methods are written from their papers. Their docstrings tell four kinds of settings apart: those of the paper, those
of the authors' repository, those of the paper as we remember it (we could not check its appendix), and our own choices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from nptad.bench.methods.scaling import Scaler, Scaling, check_count, check_new_rows, check_rows
from nptad.errors import InputError, TrainingError
from nptad.nn.device import resolve_device
from nptad.nn.rng import spawn_seeds
from nptad.progress import progress_bar

LARGEST = 1e6
"""Scaled cells are cut to +-this: beyond it a row is no more anomalous, and squares of float32 stay finite."""

TINY = 1e-12  # added to norms before dividing by them

leaky_relu = partial(nn.LeakyReLU, 0.2)  # the activation of several methods, with the slope of their authors' code


@dataclass(kw_only=True, eq=False)
class DeepBaseline(ABC):
    """A detector made of networks trained by Adam on mini-batches of the training rows."""

    n_epochs: int  # passes through the training rows; rows that do not fill a batch are left out of a pass
    batch_size: int  # rows per step; all rows if there are fewer
    learning_rate: float  # learning rate of Adam, whose other settings are torch's
    max_steps: int = 2000
    """Largest number of steps, which bounds the time for large tables. Schedules (warm-up, decay of the learning rate)
    are shortened to the number of steps."""
    decay: float = 1.0  # factor on the learning rate per epoch
    random_state: int | np.random.Generator | np.random.RandomState | None = None  # the only source of randomness
    device: str = "cpu"
    """A torch device. Random numbers are drawn on the CPU, so they are the same on all devices."""
    verbose: bool = False  # show a progress bar

    _scaling: ClassVar[Scaling] = "standard"
    _min_steps: ClassVar[int] = 1
    """Smallest number of steps: a small table has one batch per epoch, too few steps for the loss to fall. Methods with
    the settings of a named data set make at least as many steps as on that set."""
    _chunk_rows: ClassVar[int] = 256  # rows to score at a time

    def fit(self, x: Any) -> Self:
        """Learn from the training rows ``x``: finite numbers, categories one-hot, all of them normal."""
        self._check_parameters()
        device = resolve_device(self.device)
        table = check_rows(x)
        self._scaler = Scaler(table, self._scaling)
        rows = self._to_tensor(table).to(device)
        n_members = self._n_members(*rows.shape)
        networks = []
        with progress_bar(type(self).__name__, n_members * self._n_steps(len(rows)), self.verbose) as advance:
            for seed in spawn_seeds(self.random_state, n_members):
                weights_seed, batches_seed = spawn_seeds(seed, 2)
                with torch.random.fork_rng(devices=[]):  # modules draw their weights from torch's global generator
                    torch.default_generator.manual_seed(weights_seed)
                    network = self._build(*rows.shape).to(device)
                self._train(network, rows, torch.Generator().manual_seed(batches_seed), advance)
                networks.append(network.eval())
        self._networks = networks
        self.n_features_ = table.shape[1]
        return self

    def score(self, x: Any) -> np.ndarray:
        """Return how anomalous each row is, higher = more; a row's score does not depend on the other rows."""
        table = check_new_rows(self, x)
        device = resolve_device(self.device)
        size = self._chunk_rows
        scores = np.empty(len(table))
        for start in range(0, len(table), size):
            rows = self._to_tensor(table[start : start + size])
            # All chunks have one shape: the rounding of a matrix product depends on its shape, a score must not.
            chunk = torch.zeros(size, rows.shape[1])
            chunk[: len(rows)] = rows
            chunk = chunk.to(device)
            with torch.inference_mode():
                members = torch.stack([self._score_rows(network, chunk) for network in self._networks])
            scores[start : start + size] = members.double().mean(0)[: len(rows)].cpu().numpy()
        return scores

    @abstractmethod
    def _build(self, n_rows: int, n_columns: int) -> nn.Module:
        """Return the network; its weights, and all else that is random, come from torch's global generator."""

    @abstractmethod
    def _loss(self, network: Any, rows: Tensor, progress: float, generator: torch.Generator) -> Tensor:
        """Return the loss on a batch; ``progress`` is the share of the training that is done."""

    @abstractmethod
    def _score_rows(self, network: Any, rows: Tensor) -> Tensor:
        """Return the score of each row; it must not depend on the other rows."""

    def _n_members(self, n_rows: int, n_columns: int) -> int:
        """Return how many networks to train one after the other; the score is the mean over them."""
        return 1

    def _stop_loss(self) -> float:
        """Return the loss below which the mean over an epoch ends the training."""
        return -np.inf

    def _steps_per_epoch(self, n_rows: int) -> int:
        return max(1, n_rows // self.batch_size)

    def _n_steps(self, n_rows: int) -> int:
        return min(max(self.n_epochs * self._steps_per_epoch(n_rows), self._min_steps), self.max_steps)

    def _train(self, network: nn.Module, rows: Tensor, generator: torch.Generator, advance: Any) -> None:
        n_steps, per_epoch = self._n_steps(len(rows)), self._steps_per_epoch(len(rows))
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate, fused=True)
        losses: list[float] = []
        for step in range(n_steps):
            if step % per_epoch == 0:
                if losses and np.mean(losses) < self._stop_loss():
                    advance(n_steps - step)
                    return
                losses.clear()
                order = torch.randperm(len(rows), generator=generator).to(rows.device)
            start = step % per_epoch * self.batch_size
            progress = step / n_steps
            for group in optimizer.param_groups:
                group["lr"] = self.learning_rate * self.decay ** (progress * self.n_epochs)
            loss = self._loss(network, rows[order[start : start + self.batch_size]], progress, generator)
            losses.append(loss.item())
            if not np.isfinite(losses[-1]):
                raise TrainingError(
                    f"The loss of {type(self).__name__} became {losses[-1]} at step {step + 1}: use a smaller "
                    f"learning_rate than {self.learning_rate:g}."
                )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            advance(1, note=f"loss {losses[-1]:.4g}")

    def _to_tensor(self, table: np.ndarray) -> Tensor:
        return torch.from_numpy(self._scaler.transform(table).clip(-LARGEST, LARGEST).astype(np.float32))

    def _check_parameters(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int":
                check_count(field.name, value)
            elif field.type == "float":
                # Only the weight of a term of a loss may be 0.
                least = 0.0 if field.name.endswith("_weight") else np.nextafter(0.0, 1.0)
                is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
                if not is_number or not least <= value < np.inf:
                    raise InputError(f"{field.name} must be a positive number, got {value!r}.")


def mlp(widths: Sequence[int], activation: Callable[[], nn.Module] = nn.ReLU, *, bias: bool = True) -> nn.Sequential:
    """Return linear layers of the given widths, with activations between them and none at the end."""
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(widths):
        layers += [nn.Linear(n_in, n_out, bias=bias), activation()]
    return nn.Sequential(*layers[:-1])
