"""Random streams, one per member, so that a member draws the same numbers alone and in a stack."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, UInt64
from torch import Tensor

_HALF_WORD = 2**16


def spawn_seeds(random_state: int | np.random.Generator | np.random.RandomState | None, n: int) -> list[int]:
    """Draw ``n`` independent 63-bit seeds from what scikit-learn users pass as ``random_state``.

    The first seeds do not depend on ``n``: member 0 is the same in an ensemble of one and of eight.
    """
    if random_state is None:
        root = np.random.SeedSequence()
    elif isinstance(random_state, np.random.Generator | np.random.RandomState):
        root = np.random.SeedSequence([int(w) for w in np.frombuffer(random_state.bytes(16), dtype=np.uint32)])
    else:
        root = np.random.SeedSequence(int(random_state))
    return [int(child.generate_state(1, np.uint64)[0] >> 1) for child in root.spawn(n)]


class Parts:
    """Random booleans of one stream, taken part by part as if they had been drawn at once."""

    def __init__(self, stream: np.random.SFC64, probability: float) -> None:
        self.stream, self.limit = stream, round(probability * _HALF_WORD)
        self._left = np.empty(0, dtype=np.uint16)  # of the last word

    def take(self, count: int) -> Bool[np.ndarray, " count"]:
        """The next booleans; sixteen random bits decide each."""
        halves = self.stream.random_raw((count - len(self._left) + 3) // 4).view(np.uint16)
        if len(self._left):
            halves = np.concatenate([self._left, halves])
        self._left = halves[count:]
        return halves[:count] < self.limit


class MemberRandom:
    """K independent random streams that fill tensors with a leading member axis.

    NumPy's SFC64, read as raw 64-bit words: drawing dropout masks with torch took a fifth of a small training step,
    this takes a twentieth. Only whole words are drawn, so a stream's state is four words.
    """

    device = "cpu"
    """Where its tensors are."""

    def __init__(self, seeds: list[int]) -> None:
        self.streams = [np.random.SFC64(seed) for seed in seeds]

    def part(self, members: slice) -> MemberRandom:
        """The streams of some members, shared: drawing from them advances these streams too."""
        part = MemberRandom([])
        part.streams = self.streams[members]
        return part

    def __len__(self) -> int:
        return len(self.streams)

    def _words(self, count: int) -> UInt64[np.ndarray, "K count"]:
        return np.stack([stream.random_raw(count) for stream in self.streams])

    def _below(self, shape: tuple[int, ...], probability: float) -> Bool[np.ndarray, " K *shape"]:
        """Sixteen random bits decide each element."""
        size = int(np.prod(shape))
        halves = self._words((size + 3) // 4).view(np.uint16)[:, :size]
        return (halves < round(probability * _HALF_WORD)).reshape(len(self), *shape)

    def uniform(self, shape: tuple[int, ...], low: float, high: float) -> Float[Tensor, " K *shape"]:
        """Uniform numbers."""
        unit = (self._words(int(np.prod(shape))) >> np.uint64(40)).astype(np.float32) / np.float32(2**24)
        return torch.from_numpy(low + (high - low) * unit).view(len(self), *shape)

    def bernoulli(self, shape: tuple[int, ...], probability: float) -> Bool[Tensor, " K *shape"]:
        """Booleans, True with the given probability (to 1 part in 65,536)."""
        return torch.from_numpy(self._below(shape, probability))

    def keep(self, shape: tuple[int, ...], dropout: float) -> Float[Tensor, " K *shape"]:
        """Factors for dropout: 0 with that probability, else 1 / (1 - dropout)."""
        factors = self._below(shape, 1 - dropout).astype(np.float32)
        factors *= np.float32(1 / (1 - dropout))
        return torch.from_numpy(factors)

    def in_parts(self, probability: float) -> list[Parts]:
        """For each member, booleans that are taken part by part; together they are those of one :meth:`bernoulli`."""
        return [Parts(stream, probability) for stream in self.streams]

    def permutations(self, n: int) -> Int[Tensor, "K n"]:
        """A random order of ``range(n)`` for each member."""
        return torch.from_numpy(np.argsort(self._words(n), axis=1, kind="stable"))

    def branch(self, number: int) -> None:
        """Switch to other streams for each ``number``, the same on every machine; 0 keeps the streams."""
        if number:
            words = self.state().numpy().view(np.uint64)
            self.streams = [np.random.SFC64([number, *map(int, state)]) for state in words]

    def state(self) -> Int[Tensor, "K 4"]:
        """The state of all streams, for a checkpoint."""
        return torch.from_numpy(np.stack([stream.state["state"]["state"] for stream in self.streams]).view(np.int64))

    def restore(self, state: Int[Tensor, "K 4"]) -> None:
        """Continue from a state returned by :meth:`state`."""
        for stream, words in zip(self.streams, state.numpy().view(np.uint64), strict=True):
            stream.state = {**stream.state, "state": {"state": words}}


class NoRandom(MemberRandom):
    """Stands for the streams of K members whose weights are known: tensors have a shape, but no numbers and no memory.

    Examples
    --------
    >>> NoRandom(2).uniform((10**9, 10**3), 0.0, 1.0).shape
    torch.Size([2, 1000000000, 1000])
    """

    device = "meta"

    def __init__(self, n_members: int) -> None:
        super().__init__([])
        self._n_members = n_members

    def __len__(self) -> int:
        return self._n_members

    def part(self, members: slice) -> NoRandom:
        """The same for some members."""
        return NoRandom(len(range(self._n_members)[members]))

    def uniform(self, shape: tuple[int, ...], low: float, high: float) -> Float[Tensor, " K *shape"]:
        """A tensor without numbers."""
        return torch.empty((len(self), *shape), device=self.device)
