"""Training learns, stacks train like members alone, and a killed run ends as if it had never stopped."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
import torch

import nptad.training.loop
from nptad.errors import InputError, ModelFileError, TrainingError
from nptad.io.tensors import from_bytes, to_bytes
from nptad.nn.model import NPT
from nptad.nn.rng import MemberRandom
from nptad.settings import Settings
from nptad.tables.layout import CellLayout
from nptad.training.loop import train
from table_samples import MIXED, random_rows

SETTINGS = Settings(embedding_dim=8, n_steps=12, batch_size=8)


def stack(seeds, settings=SETTINGS, layout=MIXED):
    return NPT(layout, settings, MemberRandom(seeds))


def data(n_members=2):
    return torch.stack([random_rows(MIXED, 20, seed) for seed in range(n_members)])


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_training_learns_a_dependency():
    x = torch.randn(100, 1, generator=torch.Generator().manual_seed(0))
    rows = torch.cat([x, -x, x], dim=1)
    rows = (rows - rows.mean(0)) / rows.std(0)
    model = stack([0], Settings(embedding_dim=8, n_steps=150), CellLayout(3, ()))
    history = train(model, rows[None])
    assert np.mean([entry["loss"] for entry in history[:5]]) > 0.8
    assert np.mean([entry["loss"] for entry in history[-5:]]) < 0.2


def test_history_is_a_list_of_dicts_with_the_schedule():
    seen = []
    history = train(stack([0, 1]), data(), report=seen.append)
    assert seen == history
    assert [entry["step"] for entry in history] == list(range(1, 13))
    assert history[0]["learning_rate"] == pytest.approx(0.01)
    assert history[-1]["learning_rate"] < 0.01
    assert all(len(entry["losses"]) == 2 for entry in history)
    assert history[0]["loss"] == pytest.approx(np.mean(history[0]["losses"]), rel=1e-5)


@pytest.mark.parametrize("row_attention", ["full", "low_rank", "none"])
@pytest.mark.parametrize("attention_dropout", [0.0, 0.1])
def test_a_member_trains_as_if_it_were_alone(row_attention, attention_dropout):
    settings = Settings(
        embedding_dim=8, n_steps=10, batch_size=8, row_attention=row_attention, attention_dropout=attention_dropout
    )
    x = data(3)
    together = stack([5, 6, 7], settings)
    train(together, x)
    alone = stack([6], settings)
    train(alone, x[1:2])
    torch.testing.assert_close(weights(alone), weights(together.member(1)), rtol=1e-4, atol=1e-5)


def test_same_seed_same_weights_bit_for_bit():
    first, second, other = stack([1, 2]), stack([1, 2]), stack([1, 3])
    for model in (first, second, other):
        train(model, data())
    assert torch.equal(weights(first), weights(second))
    assert not torch.equal(weights(first), weights(other))


@pytest.fixture
def two_cores(monkeypatch):
    """Members are shared out among two threads, however small they are."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.setattr(nptad.training.loop, "WORTH_SHARING", 0)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def test_members_that_are_shared_out_train_like_one_stack(two_cores, monkeypatch, tmp_path):
    shared, again, together = stack([5, 6, 7]), stack([5, 6, 7]), stack([5, 6, 7])
    seen = []
    monkeypatch.setattr(
        nptad.training.loop,
        "_reconstruct",
        record(nptad.training.loop._reconstruct, seen, lambda part, **_: part[0].start),
    )
    history = train(shared, data(3), checkpoint=tmp_path / "a")
    assert set(seen) == {0, 1}  # the first member, and the other two
    train(again, data(3))
    assert torch.equal(weights(shared), weights(again))
    torch.set_num_threads(1)
    expected = train(together, data(3))
    torch.set_num_threads(2)
    torch.testing.assert_close(weights(shared), weights(together), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose([h["losses"] for h in history], [h["losses"] for h in expected], rtol=1e-4)


def record(function, seen, what):
    def recording(*args, **kwargs):
        seen.append(what(*args, **kwargs))
        return function(*args, **kwargs)

    return recording


def test_an_error_in_one_share_ends_training(two_cores, monkeypatch):
    def fail(part, **_):
        raise TrainingError(f"members from {part[0].start}")

    monkeypatch.setattr(nptad.training.loop, "_reconstruct", fail)
    with pytest.raises(TrainingError, match="members from 0"):
        train(stack([0, 1]), data())


def test_every_row_is_used_once_per_epoch(monkeypatch):
    """Mini-batches run through a random order of all rows before any row comes again."""
    seen = []
    original = NPT.forward

    def forward(self, x, hidden):
        seen.append(x[0, :, 0].tolist())
        return original(self, x, hidden)

    monkeypatch.setattr(NPT, "forward", forward)
    rows = torch.arange(8.0).reshape(1, 8, 1).expand(1, 8, 2).contiguous()
    train(stack([0], Settings(embedding_dim=8, n_steps=4, batch_size=4), CellLayout(2, ())), rows)
    assert sorted(seen[0] + seen[1]) == sorted(seen[2] + seen[3]) == list(range(8))


def test_time_limit_ends_training_annealed():
    settings = Settings(embedding_dim=8, n_steps=10**6)
    started = time.monotonic()
    history = train(stack([0], settings), data(1), time_limit=1.0)
    assert time.monotonic() - started < 10
    assert 1 < len(history) < 10**6
    assert history[-1]["learning_rate"] < 0.3 * settings.learning_rate


def test_no_step_begins_that_would_end_after_the_limit(monkeypatch):
    """A clock that only steps move, 30 seconds each: the third would end after 90."""
    now = 0.0
    forward = NPT.forward

    def slow(*arguments):
        nonlocal now
        now += 30
        return forward(*arguments)

    monkeypatch.setattr(NPT, "forward", slow)
    monkeypatch.setattr(nptad.training.loop.time, "monotonic", lambda: now)
    history = train(stack([0]), data(1), time_limit=80.0)
    assert [entry["seconds"] for entry in history] == [30, 60]
    assert {entry["planned"] for entry in history} == {SETTINGS.n_steps}


def test_infinite_loss_stops_with_advice():
    settings = Settings(embedding_dim=8, n_steps=500, learning_rate=1e12)
    with pytest.raises(TrainingError, match="smaller learning_rate"):
        train(stack([0], settings), data(1))


class Killed(BaseException):
    pass


def test_resumed_training_ends_with_the_same_weights(tmp_path):
    whole = stack([1, 2])
    expected = train(whole, data())

    def die(entry):
        if entry["step"] == 7:
            raise Killed

    path = tmp_path / "run.checkpoint"
    with pytest.raises(Killed):
        train(stack([1, 2]), data(), checkpoint=path, checkpoint_seconds=0, report=die)
    resumed = stack([1, 2])
    history = train(resumed, data(), checkpoint=path, checkpoint_seconds=0)
    assert torch.equal(weights(resumed), weights(whole))
    assert [entry["losses"] for entry in history] == [entry["losses"] for entry in expected]
    again = stack([1, 2])
    assert len(train(again, data(), checkpoint=path)) == 12  # the finished run is still there
    assert torch.equal(weights(again), weights(whole))


def test_kill_minus_9_and_resume(tmp_path):
    """A real process, really killed, several times."""
    program = textwrap.dedent(
        f"""
        import sys, time, torch
        sys.path[:0] = {[str(p) for p in (os.path.dirname(__file__), os.path.dirname(os.path.dirname(__file__)))]!r}
        torch.set_num_threads(1)
        from test_loop import stack, data, train
        model = stack([1, 2])
        slow = lambda entry: time.sleep(float(sys.argv[1]))
        train(model, data(), checkpoint={str(tmp_path / "run")!r}, checkpoint_seconds=0, report=slow)
        torch.save(model.state_dict(), {str(tmp_path / "weights.pt")!r})
        """
    )
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", program, "0.3"])
        written, deadline = set(), time.monotonic() + 60
        while len(written) < 4 and time.monotonic() < deadline:  # some steps after the checkpoint at the start
            written |= {path.stat().st_mtime_ns for path in tmp_path.glob("run")}
            time.sleep(0.02)
        assert len(written) == 4
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (tmp_path / "weights.pt").exists()
    subprocess.run([sys.executable, "-c", program, "0"], check=True)
    whole = stack([1, 2])
    train(whole, data())
    resumed = torch.load(tmp_path / "weights.pt", weights_only=True)
    assert all(torch.allclose(resumed[name], value, rtol=1e-4, atol=1e-6) for name, value in whole.state_dict().items())


def test_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run"

    def die(entry):
        if entry["step"] == 3:
            raise Killed

    with pytest.raises(Killed):
        train(stack([1, 2]), data(), checkpoint=path, checkpoint_seconds=0, report=die)
    with pytest.raises(ModelFileError, match="other data or settings"):
        train(stack([1, 3]), data(), checkpoint=path)


def test_a_checkpoint_that_is_cut_or_flipped_is_refused(tmp_path):
    path = tmp_path / "run"
    train(stack([1]), data(1), checkpoint=path)
    content = path.read_bytes()
    ends = [0, 1, 20, 80, 82, 83, 90, len(content) // 2, len(content) - 1]
    places = [*range(0, 100, 9), *range(100, len(content), len(content) // 20)]
    flipped = [content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :] for i in places]
    for damaged in [content[:end] for end in ends] + flipped + [content + b"x", content + content]:
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match=r"^The checkpoint .* is damaged, cut, or of another version; delete"):
            train(stack([1]), data(1), checkpoint=path)


def test_a_pipe_is_no_checkpoint(tmp_path):
    os.mkfifo(tmp_path / "run")
    with pytest.raises(ModelFileError, match="it is no regular file; delete it or name another file"):
        train(stack([1]), data(1), checkpoint=tmp_path / "run")


def reseal(path, change):
    """Change a checkpoint as somebody would who knows how it is made."""
    content = from_bytes(path.read_bytes().partition(b"\n")[2])
    change(content)
    state = to_bytes(content)
    path.write_bytes(b"nptad checkpoint " + hashlib.sha256(state).hexdigest().encode() + b"\n" + state)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.pop("history"),
        lambda content: content.update(history=[{}]),
        lambda content: content.update(history=3),
        lambda content: content.update(history={}),
        lambda content: content["history"][0].update(loss=None),
        lambda content: content["history"][0].update(losses=[]),
        lambda content: content["history"].pop(0),
        lambda content: content.update(used=-1),
        lambda content: content.update(used="1"),
        lambda content: content.update(tensors=[]),
        lambda content: content["tensors"].pop("value"),
        lambda content: content["tensors"].update(value=content["tensors"]["value"].double()),
        lambda content: content["tensors"].update(slow=content["tensors"]["slow"][1:]),
        lambda content: content["tensors"]["first"].fill_(float("nan")),
        lambda content: content["tensors"]["order"].fill_(0),
        lambda content: content["tensors"].update(random=torch.zeros(1, 1, 3, dtype=torch.int64)),
        lambda content: content["tensors"].update(random=3),
    ],
)
def test_a_checkpoint_of_nonsense_is_refused_even_if_it_is_sealed(tmp_path, change):
    path = tmp_path / "run"
    train(stack([1]), data(1), checkpoint=path)
    reseal(path, lambda content: None)
    train(stack([1]), data(1), checkpoint=path)
    reseal(path, change)
    with pytest.raises(ModelFileError, match=r"^The checkpoint .* is damaged, cut, or of another version; delete"):
        train(stack([1]), data(1), checkpoint=path)


def test_a_failed_checkpoint_leaves_the_last_one(tmp_path, monkeypatch):
    path = tmp_path / "run"

    def die(entry):
        if entry["step"] == 3:
            raise Killed

    with pytest.raises(Killed):
        train(stack([1]), data(1), checkpoint=path, checkpoint_seconds=0, report=die)
    before = path.read_bytes()

    def full_disk(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full_disk)
    with pytest.raises(InputError, match="No space left"):
        train(stack([1]), data(1), checkpoint=path, checkpoint_seconds=0)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_checkpoints_are_written_by_the_clock(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(nptad.training.loop, "write_checkpoint", lambda path, *rest: written.append(path))
    train(stack([1]), data(1), checkpoint=tmp_path / "run", checkpoint_seconds=3600)
    assert len(written) == 2  # at the start, to see that it can be written, and at the end
    train(stack([1]), data(1), checkpoint=tmp_path / "run", checkpoint_seconds=0)
    assert len(written) == 2 + 2 + 12


def test_a_checkpoint_that_cannot_be_written_is_told_before_training(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        train(stack([1]), data(1), checkpoint=tmp_path / "file" / "run", report=lambda entry: pytest.fail("trained"))


@pytest.mark.parametrize("layout", [CellLayout(3, ()), CellLayout(0, (2, 3, 4))])
def test_tables_of_one_kind_train_without_a_warning(layout):
    """torch warns about the gradients of empty weights, of a single member above all."""
    model = NPT(layout, Settings(embedding_dim=8, n_steps=2), MemberRandom([0]))
    x = random_rows(layout, 12, seed=0).unsqueeze(0)
    assert len(train(model, x)) == 2
