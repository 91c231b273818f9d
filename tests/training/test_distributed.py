"""Two real processes train one model: as the mathematics says, in step, and with one clear end if one of them dies."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import psutil
import pytest
import torch
from test_loop import Killed, data, stack, weights
from together import BATCHES, settings_of

import nptad.cli.app
from nptad.errors import InputError, PeerError, TrainingError
from nptad.nn.loss import cell_losses, masked_mean
from nptad.nn.model import NPT
from nptad.processes import error_to_dict
from nptad.training import launch
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


# The command


ARGUMENTS = ["fit", "table.csv", "--model", "model", "--network", "--nproc", "2", "--quiet"]


def write_rows(folder, n_rows):
    rows = np.random.default_rng(0).normal(size=(n_rows, 3))
    pd.DataFrame(rows, columns=list("abc")).to_csv(folder / "table.csv", index=False)


@pytest.fixture
def table(tmp_path):
    write_rows(tmp_path, 300)


def command(folder, *arguments, module=("nptad.cli",), **variables):
    return subprocess.Popen(
        [sys.executable, "-P", "-m", *module, *arguments],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(folder)} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def training(tmp_path, table):
    """The command in the middle of training, and its two workers in order of rank."""
    # Without our own choice of the network, the workers would listen on this one.
    networks = [name for name in psutil.net_if_addrs() if not name.startswith("lo")]
    elsewhere = {"GLOO_SOCKET_IFNAME": networks[0]} if networks else {}
    launcher = command(tmp_path, *ARGUMENTS, "--checkpoint", "run", **elsewhere)
    deadline = time.monotonic() + 120
    while not (tmp_path / "run").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = sorted(psutil.Process(launcher.pid).children(), key=lambda worker: worker.environ()["RANK"])
    assert len(workers) == 2
    yield launcher, workers
    if launcher.poll() is None:
        launcher.kill()
    launcher.communicate()
    assert psutil.wait_procs(workers, timeout=30)[1] == []


def require_clean(folder):
    """Nothing is left but the table and the checkpoint."""
    assert sorted(path.name for path in folder.iterdir()) == ["run", "table.csv"]


def test_the_command_tells_once_that_a_process_was_killed(training, tmp_path):
    launcher, workers = training
    workers[1].kill()
    _, errors = launcher.communicate(timeout=120)
    assert launcher.returncode == 1
    assert errors.startswith("nptad: Training stopped: process 2 of 2 was killed by signal 9 (Killed)")
    assert errors.count("\n") == 1
    assert not any(worker.is_running() for worker in workers)
    require_clean(tmp_path)


def test_nothing_listens_beyond_this_machine(training):
    launcher, workers = training
    for process in (psutil.Process(launcher.pid), *workers):
        sockets = process.net_connections("inet")
        assert all(socket.laddr.ip in ("127.0.0.1", "::1") for socket in sockets)
        listening = [socket for socket in sockets if socket.status == psutil.CONN_LISTEN]
        assert bool(listening) == (process.pid != launcher.pid)


@pytest.mark.parametrize(
    ("number", "code", "told"),
    [
        (signal.SIGINT, 130, "nptad: interrupted; no file was left half-written.\n"),
        (signal.SIGTERM, 143, "nptad: stopped by SIGTERM; no file was left half-written.\n"),
        (signal.SIGHUP, 129, "nptad: stopped by SIGHUP; no file was left half-written.\n"),
    ],
)
def test_a_signal_ends_all_processes_and_leaves_no_files(training, tmp_path, number, code, told):
    launcher, workers = training
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("ignored, as under nohup")
    launcher.send_signal(number)
    _, errors = launcher.communicate(timeout=120)
    assert (launcher.returncode, errors) == (code, told)
    assert not any(worker.is_running() for worker in workers)
    require_clean(tmp_path)


def test_kill_9_of_the_command_ends_all_processes(training):
    launcher, workers = training
    launcher.kill()
    assert psutil.wait_procs(workers, timeout=30)[1] == []


def test_what_several_processes_learnt_is_printed_once_by_the_command(tmp_path):
    write_rows(tmp_path, 40)
    out, errors = command(tmp_path, *ARGUMENTS, "--time-limit", "1", "--json").communicate(timeout=120)
    assert errors == ""
    assert json.loads(out)["rows"] == 40
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "table.csv"]


def test_an_error_of_several_processes_is_printed_once(tmp_path, table):
    launcher = command(tmp_path, *ARGUMENTS, "--as", "d=category")
    out, errors = launcher.communicate(timeout=120)
    assert (launcher.returncode, out, errors.count("\n")) == (1, "", 1)
    assert errors.startswith("nptad: --as: There is no column 'd'")


TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "nptad.cli")


def test_torchrun_can_start_the_processes_too(tmp_path):
    write_rows(tmp_path, 40)
    arguments = ["fit", "table.csv", "--model", "model", "--network", "--quiet", "--json", "--time-limit", "1"]
    out, _ = command(tmp_path, *arguments, module=TORCHRUN).communicate(timeout=120)
    assert json.loads(out)["rows"] == 40
    assert (tmp_path / "model").exists()


def test_under_torchrun_an_error_of_all_processes_is_printed_by_the_first(tmp_path, table):
    (tmp_path / "damaged").write_bytes(b"no checkpoint")
    arguments = ["fit", "table.csv", "--model", "model", "--network", "--quiet", "--checkpoint", "damaged"]
    launcher = command(tmp_path, *arguments, module=TORCHRUN)
    _, errors = launcher.communicate(timeout=120)
    assert launcher.returncode == 1
    told = [line for line in errors.splitlines() if line.startswith("nptad: ")]
    assert len(told) == 1
    assert "damaged" in told[0]


class FakeChild:
    def __init__(self, ending=""):
        self.ending = lambda: ending


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([(0, {"result": 1}), (0, None), (1, {"result": None})], None),
        ([(1, PeerError("lost")), (1, None), (0, InputError("own"))], InputError("own")),
        ([(1, PeerError("lost")), (1, None), (0, None)], TrainingError("Training stopped: process 1 of 2 died;")),
        ([(1, PeerError("lost")), (1, None)], PeerError("lost")),
        ([(1, PeerError("lost")), (0, PeerError("too"))], PeerError("lost")),
    ],
)
def test_the_first_cause_is_told(monkeypatch, messages, told):
    monkeypatch.setattr(launch, "_ENDING_SECONDS", 0.1)
    heard = queue.Queue()
    for rank, message in messages:
        heard.put((rank, {"error": error_to_dict(message)} if isinstance(message, Exception) else message))
    children = [FakeChild("died"), FakeChild("died")]
    if told is None:
        assert launch._first_result(children, heard) == 1
        return
    with pytest.raises(type(told), match=str(told)) as raised:
        launch._first_result(children, heard)
    assert type(raised.value) is type(told)


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


class Interrupted:
    """An interrupt arrives while the interpreter clears up."""

    def __del__(self):
        raise KeyboardInterrupt


@pytest.fixture
def parent(monkeypatch):
    """What a process of the command hears from its launcher and sends to it."""
    monkeypatch.setattr("sys.unraisablehook", sys.__unraisablehook__)
    before, sent = signal.getsignal(signal.SIGTERM), []
    yield SimpleNamespace(receive=lambda: ({}, b""), send=sent.append, sent=sent)
    signal.signal(signal.SIGTERM, before)


def test_a_process_says_nothing_about_an_interrupt_that_was_lost(parent, capsys):
    launch.take_part(parent, lambda: str(Interrupted())[:0])
    assert (parent.sent, capsys.readouterr().err) == ([{"result": ""}], "")


def test_a_process_that_is_stopped_says_nothing_about_errors_of_libraries(parent):
    def work():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            raise RuntimeError("Connection closed by peer")

    with pytest.raises(SystemExit):
        launch.take_part(parent, work)
    assert parent.sent == []


def test_other_errors_of_a_process_are_raised(parent):
    with pytest.raises(ZeroDivisionError):
        launch.take_part(parent, lambda: 1 / 0)
