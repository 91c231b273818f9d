"""A real Ray on this machine gives the scores of one process."""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import nullcontext

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nptad.cli.app
from nptad import InputError, NPTADError, load
from nptad.errors import WorkerError
from nptad.io.write import write_table
from nptad.scale.arrow import ScoringOptions
from nptad.scale.bigfiles import score_files
from nptad.scale.ray import RayWorker, connect, ray_workers, score_dataset
from order_tables import orders

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")


@pytest.fixture(scope="module")
def ray():
    """One cluster of two cores for all tests."""
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_worker_niceness", "0")  # else a busy machine starves the workers
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray.init(num_cpus=2, object_store_memory=2**27, include_dashboard=False, logging_level="ERROR")
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield ray
        ray.shutdown()


def test_a_data_set_gets_the_scores_of_one_process(ray, model):
    table = orders(3000, 1)
    parts = ray.data.from_arrow([table.slice(0, 1000), table.slice(1000)])
    scored = score_dataset(parts, model, ignore=["id"], false_alarm_rate=0.05, actors=1)
    result = pa.concat_tables(ray.get(scored.to_arrow_refs()))
    assert result.column_names == ["id", "score", "p_value", "anomaly"]
    order = np.argsort([int(name[1:]) for name in result["id"].to_pylist()])
    expected = load(model).detect(table.drop_columns("id"), false_alarm_rate=0.05)
    for name in ("score", "p_value", "anomaly"):
        assert result[name].to_numpy()[order].tolist() == getattr(expected, name).tolist()


def test_the_command_on_ray_writes_what_the_command_writes(ray, model, tmp_path, monkeypatch, capsys):
    table = orders(700, 2)
    write_table(table, tmp_path / "a.csv")
    arguments = ["score", model, tmp_path / "a.csv", "--output", f"{tmp_path}/out/", "--ignore", "id", "--jobs", "1"]
    monkeypatch.setattr(sys, "argv", ["nptad", *map(str, arguments), "--engine", "ray", "--json", "--quiet"])
    nptad.cli.app.main()
    out, err = capsys.readouterr()
    assert (json.loads(out)["rows"], err) == (700, "")
    expected = load(model).detect(table.drop_columns("id"), false_alarm_rate=0.01)
    assert pq.read_table(tmp_path / "out")["score"].to_pylist() == expected.score.tolist()


def test_a_dead_actor_and_a_bad_table_are_told(ray, model, tmp_path, small_parts):
    options = ScoringOptions(model, ["id"], device="cpu", threads=1)
    worker = RayWorker(options)
    with pytest.raises(InputError, match="'weight'"):
        worker.score(orders(5, 1).drop_columns(["weight", "size"]), lambda share: None)
    others = _actors()
    write_table(orders(900, 1), tmp_path / "a.parquet")

    class Doomed(RayWorker):
        def score(self, table, report):
            if len(table) < 500:  # the second part
                for pid in _actors() - others:
                    os.kill(pid, signal.SIGKILL)
            return super().score(table, report)

    with pytest.raises(WorkerError, match=r"on the Ray cluster has died .* 1 part\(s\) with 500 rows are finished"):
        score_files(
            options,
            [str(tmp_path / "a.parquet")],
            tmp_path / "out",
            engine=lambda options, jobs: [lambda: Doomed(options)],
        )
    worker.close()


def _die(task, limits):
    """What Ray cannot even import on the other side: this module is not installed there."""
    yield


def _actors():
    """The processes of actors of ours; Ray calls them by their class."""
    return {p.pid for p in psutil.process_iter(["cmdline"]) if any("_TableActor" in c for c in p.info["cmdline"] or ())}


@pytest.mark.parametrize("dies", [False, True])
def test_the_benchmark_on_ray_keeps_its_records_here(ray, tmp_path, monkeypatch, dies):
    monkeypatch.delenv("NPTAD_DATA", raising=False)  # the data set is generated
    if dies:
        monkeypatch.setattr("nptad.bench.cluster.supervise", _die)
    arguments = ["bench", "run", "--methods", "iforest", "--datasets", "separable", "--seeds", "0-1"]
    monkeypatch.setattr(sys, "argv", ["nptad", *arguments, "--engine", "ray", "--results", str(tmp_path)])
    with pytest.raises(SystemExit) if dies else nullcontext():
        nptad.cli.app.main()
    records = [json.loads(line) for line in (tmp_path / "runs" / "separable.jsonl").read_text().splitlines()]
    assert [(r["seed"], r["outcome"]) for r in records] == [(seed, "failed" if dies else "done") for seed in (0, 1)]


def test_workers_are_as_many_as_the_cluster_has_room_for(ray, model):
    makers = ray_workers(ScoringOptions(model), None)
    assert [(maker.args[0].device, maker.args[0].threads) for maker in makers] == [("cpu", 1)] * 2


def test_workers_do_not_import_from_the_current_folder(monkeypatch):
    """Ray adds the folder where it is started to the path of all workers; a module there would be imported."""
    ray, started_in = pytest.importorskip("ray", reason="the extra ray is not installed"), []
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **options: started_in.append(os.getcwd()))
    before = os.getcwd()
    connect()
    assert (started_in, os.getcwd()) == (["/"], before)


def test_without_ray_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NPTADError, match=r"pip install 'nptad\[ray\]'"):
        connect()
