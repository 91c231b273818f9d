"""Two real processes train one model: as the mathematics says, in step, and with one clear end if one of them dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
import torch
from test_loop import Killed, data, stack, weights
from together import BATCHES, settings_of

import nptad.cli.app
from nptad.errors import InputError
from nptad.nn.loss import cell_losses, masked_mean
from nptad.nn.model import NPT
from nptad.training.distributed import Ranks
from nptad.training.loop import train
from nptad.training.optim import FlatParameters, Lamb, Lookahead, flat_then_anneal

HERE = Path(__file__).parent


def start(folder, scenario):
    command = [sys.executable, str(HERE / "together.py"), str(folder)]
    return [
        subprocess.Popen([*command, str(rank), scenario], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]


@pytest.fixture(scope="module")
def in_step(tmp_path_factory):
    """What two processes found that trained together; see together.py."""
    folder = tmp_path_factory.mktemp("in_step")

    def die(entry):
        raise Killed

    with pytest.raises(Killed):
        train(stack([1, 2]), data(), checkpoint=folder / "of_one.checkpoint", checkpoint_seconds=0, report=die)
    processes = start(folder, "in_step")
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    return folder, [json.loads((folder / f"found-{rank}.json").read_text()) for rank in (0, 1)]


def train_as_two(batch_size):
    """What two processes should end with, written as one plain loop."""
    settings, x = settings_of(batch_size), data()
    models = [stack([1, 2], settings), stack([1, 2], settings)]
    for rank, model in enumerate(models):
        model.random.branch(rank)
    flat = [FlatParameters(model.parameters()) for model in models]
    lamb, lookahead = Lamb(flat[0]), Lookahead(flat[0])
    n_rows, used, history = x.shape[1], 0, []
    order = models[0].random.permutations(n_rows)
    for step in range(settings.n_steps):
        if batch_size is not None and used + 2 * batch_size > n_rows:
            order, used = models[0].random.permutations(n_rows), 0
        losses = []
        for rank, model in enumerate(models):
            batch = x
            if batch_size is not None:
                twice = torch.cat([order, order], dim=1)
                rows = twice[:, used + rank * batch_size : used + (rank + 1) * batch_size]
                batch = torch.stack([member[its_rows] for member, its_rows in zip(x, rows, strict=True)])
            hidden = model.random.bernoulli(tuple(batch.shape[1:]), settings.mask_rate)
            loss = masked_mean(cell_losses(model(batch, hidden), batch, model.layout, n_rows), hidden & ~batch.isnan())
            flat[rank].grad.zero_()
            loss.sum().backward()
            losses.append(loss.detach())
        used += 2 * (batch_size or 0)
        flat[0].grad.add_(flat[1].grad).div_(2)
        flat[0].clip_gradients(1.0)
        lamb.step(settings.learning_rate * flat_then_anneal(step / settings.n_steps))
        lookahead.step()
        flat[1].value.copy_(flat[0].value)
        history.append(((losses[0] + losses[1]) / 2).tolist())
    return weights(models[0]), history


@pytest.mark.parametrize("name", BATCHES)
def test_two_processes_train_as_one_loop_over_both_batches(in_step, name):
    folder, found = in_step
    expected, losses = train_as_two(BATCHES[name])
    first, second = (torch.load(folder / f"{name}-{rank}.pt", weights_only=True) for rank in (0, 1))
    assert torch.equal(first, second)
    torch.testing.assert_close(first, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose([entry["losses"] for entry in found[0][f"history {name}"]], losses, rtol=1e-4)
    assert found[0][f"history {name}"] == found[1][f"history {name}"]


def test_a_time_limit_ends_both_at_the_same_step(in_step):
    folder, (first, second) = in_step
    assert first["history limited"] == second["history limited"]
    assert 1 < len(first["history limited"]) < 10**6
    assert torch.equal(*(torch.load(folder / f"limited-{rank}.pt", weights_only=True) for rank in (0, 1)))


def test_both_end_with_the_same_detector(in_step):
    _, (first, second) = in_step
    assert first["scores"] == second["scores"]
    assert first["training scores"] == second["training scores"]


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("not a number", "TrainingError: The training loss became"),
        ("unwritable", "InputError: The checkpoint"),
        ("unlike", "InputError: All 2 processes that train together must be given the same table"),
        ("of one", "ModelFileError: The checkpoint"),
    ],
)
def test_what_is_wrong_in_one_process_stops_both_with_the_same_error(in_step, what, expected):
    _, (first, second) = in_step
    assert first[what] == second[what]
    assert first[what].startswith(expected)


def test_a_killed_process_ends_the_other_and_the_checkpoint_goes_on(in_step, tmp_path):
    processes = start(tmp_path, "killed")
    told, _ = processes[0].communicate(timeout=120)
    processes[1].communicate()
    assert processes[1].returncode == -signal.SIGKILL
    assert told.startswith("PeerError: Training stopped: another of the 2 processes has ended")
    assert told.count("\n") == 1

    first, second = start(tmp_path, "resumed")
    told, _ = first.communicate(timeout=120)
    second.kill()
    second.communicate()
    assert told.startswith("PeerError: Training stopped: another of the 2 processes has ended or does not answer")
    expected = torch.load(in_step[0] / "apart-0.pt", weights_only=True)
    for rank in (0, 1):
        assert torch.equal(torch.load(tmp_path / f"resumed-{rank}.pt", weights_only=True), expected)


def test_the_command_tells_once_that_a_process_was_killed(tmp_path):
    pd.DataFrame(np.random.default_rng(0).normal(size=(300, 3))).to_csv(tmp_path / "table.csv")
    arguments = ["fit", "table.csv", "--model", "model", "--nproc", "2", "--checkpoint", "run", "--quiet"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    launcher = subprocess.Popen(
        [sys.executable, "-m", "nptad.cli", *arguments],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not (tmp_path / "run").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = psutil.Process(launcher.pid).children()
    assert len(workers) == 2
    next(worker for worker in workers if worker.environ()["RANK"] == "1").kill()
    _, errors = launcher.communicate(timeout=120)
    assert launcher.returncode == 1
    assert errors.startswith("nptad: Training stopped: process 2 of 2 was killed by SIGKILL")
    assert errors.count("\n") == 1
    assert (tmp_path / "run").exists()
    assert not (tmp_path / "model").exists()
    assert not any(worker.is_running() for worker in workers)


def test_standard_input_cannot_be_shared(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["nptad", "fit", "-", "--model", "model", "--nproc", "2"])
    with pytest.raises(SystemExit, match="1"):
        nptad.cli.app.main()
    assert capsys.readouterr().err == "nptad: Several processes cannot share standard input; name a file.\n"


def test_alone_nothing_is_shared():
    ranks, tensor = Ranks(), torch.ones(2)
    ranks.average(tensor)
    assert ranks.is_first
    assert ranks.from_first(lambda: "made") == "made"
    assert tensor.tolist() == [1, 1]


def test_processes_branch_into_different_streams():
    first, again, second = (NPT(stack([1]).layout, settings_of(8), stack([5]).random).random for _ in range(3))
    second.branch(1)
    assert torch.equal(first.permutations(50), again.permutations(50))
    assert not torch.equal(first.permutations(50), second.permutations(50))


@pytest.mark.parametrize("precision", ["bfloat16", None, 16])
def test_a_precision_that_is_none_is_a_clear_error(precision):
    with pytest.raises(InputError, match="precision must be 'auto' or 'float32'"):
        train(stack([1]), data(1), precision=precision)


def test_automatic_precision_is_float32_on_a_cpu():
    automatic, plain = stack([1, 2]), stack([1, 2])
    train(automatic, data(), precision="auto")
    train(plain, data(), precision="float32")
    assert torch.equal(weights(automatic), weights(plain))


@pytest.mark.parametrize("row_attention", ["full", "low_rank"])
def test_the_model_trains_under_bfloat16_autocast(row_attention):
    """As on a GPU; here on the CPU, where the library itself never does so."""
    model, x = stack([1, 2], replace(settings_of(None), row_attention=row_attention)), data()
    hidden = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.3
    gradients = []
    for enabled in (False, True):
        model.random.restore(torch.arange(8).reshape(2, 4))
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            prediction = model(x, hidden)
        masked_mean(cell_losses(prediction, x, model.layout, 20), hidden & ~x.isnan()).sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    exact, coarse = gradients
    assert coarse.dtype == torch.float32
    assert 0 < (exact - coarse).norm() < 0.05 * exact.norm()
