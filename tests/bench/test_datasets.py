"""The registry, finding and checking files, downloads from a server of our own, and the data commands."""

from __future__ import annotations

import contextlib
import http.server
import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from nptad.bench import data_commands as data_cli
from nptad.bench import datasets, generate
from nptad.bench.datasets import DATASETS, EXTRA, GENERATED, Table, content_sha256, fetch, find_dataset, load
from nptad.errors import DataError

SHARED = Path(__file__).parents[3] / "shared"
DATA = Path(os.environ.get("NPTAD_DATA") or SHARED / "data")
IN_PAPER = """wine lympho glass vertebral wbc ecoli ionosphere arrhythmia breastw pima vowels letter cardio seismic
musk speech thyroid abalone optdigits satimage2 satellite pendigits annthyroid mnist mammography shuttle mulcross
forestcover campaign fraud backdoor"""

TINY = Table("wine", np.array([[0.5, 1], [2, 3], [4, 5.25], [9, 9]]), np.array([0, 0, 0, 1]) == 1, ())


def npz(table=TINY, **changes):
    """The bytes of a file in our format, which ADBench's reader understands too."""
    stream = io.BytesIO()
    arrays = {"X": table.x, "y": table.y.astype(np.uint8), "categorical": np.array(table.categorical, dtype=np.int64)}
    np.savez(stream, **{**arrays, **changes})
    return stream.getvalue()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache, a temporary directory and no data folder; none of them exists beforehand but the second."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("NPTAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NPTAD_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def tiny(cache, monkeypatch):
    """Make wine a set of four rows."""
    entry = replace(DATASETS["wine"], n=4, d=2, anomalies=1, sha256=content_sha256(TINY))
    monkeypatch.setitem(DATASETS, "wine", entry)
    return entry


class Site(http.server.ThreadingHTTPServer):
    """A web server: one body for each path, and the length that it claims to have."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Page)
        self.bodies: dict[str, bytes] = {}
        self.missing_bytes = 0
        self.requests: list[str] = []
        self.half_sent, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        body = self.server.bodies.get(self.path)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) + self.server.missing_bytes))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.server.half_sent.set()
            self.server.go_on.wait(30)
            self.wfile.write(body[len(body) // 2 :])

    def log_message(self, *args):
        pass


@pytest.fixture
def site():
    with Site() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.go_on.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def online(tiny, site, monkeypatch):
    """The same set, published by the server."""
    entry = replace(tiny, source=f"{site.address}/wine.npz")
    monkeypatch.setitem(DATASETS, "wine", entry)
    site.bodies["/wine.npz"] = npz()
    return entry


def nothing_written(cache):
    return not any(cache.glob("*")) and not any((cache.parent / "tmp").iterdir())


# The registry


def test_registry_has_the_sets_of_the_paper_in_its_order():
    assert list(DATASETS) == IN_PAPER.split()
    assert list(EXTRA) == ["separable"]


def test_registry_differs_from_the_paper_only_where_the_paper_is_wrong():
    printed = SHARED / "paper" / "datasets.csv"
    if not printed.is_file():
        pytest.skip(f"{printed} is not here")
    rows = [line.split(",") for line in printed.read_text().split()[1:]]
    assert [row[0] for row in rows] == list(DATASETS)
    others = [row[0] for row in rows if tuple(map(int, row[1:3])) != (DATASETS[row[0]].n, DATASETS[row[0]].d)]
    assert others == ["wbc", "seismic", "abalone"]
    assert all(int(row[3]) == DATASETS[row[0]].anomalies for row in rows)


@pytest.mark.parametrize("dataset", [*DATASETS.values(), *EXTRA.values()], ids=lambda dataset: dataset.name)
def test_every_set_can_be_had_and_is_described(dataset):
    assert dataset.licence
    assert (dataset.convert is None) == (dataset.generate is not None)
    assert dataset.source == GENERATED or urlsplit(dataset.source).scheme == "https"
    assert all(0 <= column < dataset.d for column in dataset.categorical)
    if dataset.name == "speech":
        assert dataset.sha256 is None
        assert "Not verified" in dataset.note
    else:
        assert len(dataset.sha256) == 64


@pytest.mark.parametrize("name", [*DATASETS, *EXTRA])
def test_the_real_file_is_what_the_registry_says(name, cache):
    if not (DATA / f"{name}.npz").is_file():
        pytest.skip(f"{name}.npz is not in {DATA}")
    table, entry = load(name, DATA), find_dataset(name)
    assert table.x.shape == (entry.n, entry.d)
    assert table.x.dtype == np.float64
    assert table.x.flags.c_contiguous
    assert table.y.dtype == bool
    assert table.y.sum() == entry.anomalies
    assert table.categorical == entry.categorical
    codes = table.x[:, list(table.categorical)]
    assert (codes == codes.astype(int)).all()


# The generated sets


def test_mulcross_is_the_same_every_time_and_checked(cache, monkeypatch):
    table = load("mulcross")
    assert table.x.shape == (262144, 4)
    assert table.y.mean() == pytest.approx(0.1, abs=1e-5)
    assert content_sha256(table) == DATASETS["mulcross"].sha256
    monkeypatch.setitem(DATASETS, "mulcross", replace(DATASETS["mulcross"], sha256="0" * 64))
    with pytest.raises(DataError, match="mulcross: what was generated is not the data of the registry"):
        load("mulcross")


def test_mulcross_is_a_normal_cloud_and_two_tight_clusters_far_out():
    x, y = generate.mulcross()
    np.testing.assert_allclose(np.cov(x[~y].T), np.eye(4), atol=0.02)
    for cluster in np.array_split(x[y], 2):
        np.testing.assert_allclose(np.cov(cluster.T), 0.1 * np.eye(4), atol=0.01)
        assert np.linalg.norm(cluster.mean(axis=0)) == pytest.approx(2 * np.sqrt(7.779), abs=0.02)


def test_separable_stands_in_for_the_authors_file_and_yields_to_it(cache, tmp_path, monkeypatch):
    table = load("separable")
    assert (table.x.shape, table.y.sum()) == ((2000, 6), 200)
    assert not table.y[:1800].any()
    assert (table.x[~table.y, :2] < [0.5, 0.5]).all()
    assert table.x[table.y, 0].min() > table.x[~table.y, 0].max()
    np.testing.assert_array_equal(table.x, load("separable").x)

    authors = replace(table, x=table.x + 1)
    monkeypatch.setitem(EXTRA, "separable", replace(EXTRA["separable"], sha256=content_sha256(authors)))
    (tmp_path / "separable.npz").write_bytes(npz(authors))
    np.testing.assert_array_equal(load("separable", tmp_path).x, authors.x)


# Finding and checking files


def test_the_given_folder_comes_before_the_variable_and_both_before_the_cache(tiny, cache, tmp_path, monkeypatch):
    monkeypatch.setitem(DATASETS, "wine", replace(tiny, sha256=None))
    folders = [cache, tmp_path / "variable", tmp_path / "given"]
    for place, folder in enumerate(folders):
        folder.mkdir()
        (folder / "wine.npz").write_bytes(npz(X=TINY.x + place))
    assert load("wine").x[0, 0] == 0.5
    monkeypatch.setenv("NPTAD_DATA", str(folders[1]))
    assert load("wine").x[0, 0] == 1.5
    assert load("wine", str(folders[2])).x[0, 0] == 2.5
    (folders[2] / "wine.npz").unlink()
    assert load("wine", folders[2]).x[0, 0] == 0.5


def test_a_data_folder_that_is_not_there_is_an_error(tiny, tmp_path):
    with pytest.raises(DataError, match="nowhere does not exist; correct --data or NPTAD_DATA"):
        load("wine", tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["wines", "../wine", "/etc/passwd", ""])
def test_only_registered_names_are_looked_up(name):
    with pytest.raises(DataError, match="There is no data set"):
        load(name)


def test_the_same_numbers_in_another_dress_are_the_same_data(tiny, tmp_path, monkeypatch):
    whole = replace(TINY, x=np.round(TINY.x))
    monkeypatch.setitem(DATASETS, "wine", replace(tiny, sha256=content_sha256(whole)))
    with (tmp_path / "wine.npz").open("wb") as file:
        x = np.asfortranarray(whole.x.astype(np.int16))
        np.savez_compressed(file, X=x, y=whole.y.astype(float), categorical=np.array([], dtype=np.int32))
    np.testing.assert_array_equal(load("wine", tmp_path).x, whole.x)


def test_checksum_notices_every_change():
    changed = [
        replace(TINY, x=TINY.x + np.eye(4, 2) * 1e-15),
        replace(TINY, x=TINY.x[:, ::-1]),
        replace(TINY, x=TINY.x.reshape(2, 4)),
        replace(TINY, y=~TINY.y),
        replace(TINY, categorical=(1,)),
    ]
    assert len({content_sha256(table) for table in [TINY, *changed]}) == 6


def test_checksum_depends_on_numbers_only():
    small = Table("tiny", np.array([[0, 2]], dtype=np.uint8), np.array([1]), categorical=(0,))
    large = Table("tiny", np.array([[-0.0, 2.0]]), np.array([True]), categorical=(0,))
    assert content_sha256(small) == content_sha256(large)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (npz()[:-30], "cannot be read"),
        (b"", "cannot be read"),
        (npz(X=np.array([[{}, {}]] * 4, dtype=object)), "cannot be read"),
        (npz(y=np.array([0, 0, 2, 1])), "not a table with labels 0 and 1"),
        (npz(y=np.array([0, 1])), "not a table with labels 0 and 1"),
        (npz(categorical=np.array([1])), "has categories in columns"),
        (npz(X=TINY.x[:, :1]), "has 4 rows, 1 columns and 1 anomalies, not 4, 2 and 1"),
        (npz(X=TINY.x + 1), "is not the data of the registry"),
    ],
)
def test_a_bad_file_is_refused_with_its_path_and_what_to_do(tiny, tmp_path, content, words):
    path = tmp_path / "wine.npz"
    path.write_bytes(content)
    with pytest.raises(DataError) as raised:
        load("wine", tmp_path)
    message = str(raised.value)
    assert words in message
    assert str(path) in message
    assert message.endswith("remove it and run `nptad data fetch wine`.")
    assert "\n" not in message


# Downloads


def test_a_download_is_converted_checked_and_kept(online, site, cache, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes standard error for a terminal
    table = load("wine")
    np.testing.assert_array_equal(table.x, TINY.x)
    np.testing.assert_array_equal(table.y, TINY.y)
    assert [path.name for path in cache.iterdir()] == ["wine.npz"]
    assert not any((cache.parent / "tmp").iterdir())
    out, err = capsys.readouterr()
    assert out == ""
    assert "wine" in err

    assert content_sha256(load("wine")) == online.sha256
    assert fetch("wine") == cache / "wine.npz"
    assert site.requests == ["/wine.npz"]


def test_a_file_in_the_data_folder_is_not_downloaded(online, site, cache, tmp_path):
    (tmp_path / "wine.npz").write_bytes(npz())
    assert fetch("wine", tmp_path) == tmp_path / "wine.npz"
    assert site.requests == []
    assert nothing_written(cache)


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("checksum", "is not the data of the registry (checksum"),
        ("size", "has 3 rows, 2 columns and 0 anomalies, not 4, 2 and 1"),
        ("truncated", "(the transfer was interrupted)"),
        ("cut", "cannot be read"),
        ("empty", "cannot be read"),
        ("gone", "(404 Client Error: Not Found)"),
        ("refused", "(there is no connection)"),
    ],
)
def test_a_failed_download_is_one_sentence_and_leaves_nothing(online, site, cache, monkeypatch, trouble, words):
    if trouble == "checksum":
        site.bodies["/wine.npz"] = npz(X=TINY.x + 1)
    elif trouble == "size":
        site.bodies["/wine.npz"] = npz(X=TINY.x[:3], y=TINY.y[:3])
    elif trouble == "truncated":
        site.missing_bytes = 1000
    elif trouble == "cut":
        site.bodies["/wine.npz"] = npz()[:-30]
    elif trouble == "empty":
        site.bodies["/wine.npz"] = b""
    elif trouble == "gone":
        site.bodies.clear()
    elif trouble == "refused":
        with Site() as closed:
            monkeypatch.setitem(DATASETS, "wine", replace(online, source=f"{closed.address}/wine.npz"))
    with pytest.raises(DataError) as raised:
        load("wine")
    message = str(raised.value)
    assert words in message
    assert message.startswith("wine")
    assert DATASETS["wine"].source in message
    assert message.endswith("; nothing was kept; try again later, or put wine.npz into a folder and give it as --data.")
    assert "\n" not in message
    assert nothing_written(cache)


def test_fetch_replaces_a_broken_file_in_the_cache_and_only_by_a_good_one(online, site, cache):
    cache.mkdir()
    (cache / "wine.npz").write_bytes(b"broken")
    site.missing_bytes = 1000
    with pytest.raises(DataError):
        fetch("wine")
    assert (cache / "wine.npz").read_bytes() == b"broken"
    site.missing_bytes = 0
    fetch("wine")
    assert content_sha256(load("wine")) == online.sha256


def test_fetch_does_not_touch_a_broken_file_in_the_data_folder(online, site, cache, tmp_path):
    (tmp_path / "wine.npz").write_bytes(b"broken")
    with pytest.raises(DataError, match="remove it"):
        fetch("wine", tmp_path)
    assert site.requests == []


def test_a_cache_that_cannot_be_written_is_named(online, cache):
    cache.write_text("a file where the folder should be")
    with pytest.raises(DataError, match=r"cache.wine.npz cannot be written .* NPTAD_CACHE"):
        load("wine")
    assert not any((cache.parent / "tmp").iterdir())


def test_a_kill_in_the_middle_of_a_download_leaves_no_file(online, site, cache):
    program = f"""
from dataclasses import replace
from nptad.bench.datasets import DATASETS, load
DATASETS["wine"] = replace(DATASETS["wine"], source={online.source!r})
load("wine")
"""
    site.go_on.clear()
    environment = {**os.environ, "TMPDIR": str(cache.parent / "tmp")}
    with subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE) as process:
        assert site.half_sent.wait(120)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not any(cache.glob("*"))
    site.go_on.set()
    assert content_sha256(load("wine")) == online.sha256


def test_without_pooch_files_can_be_read_and_a_download_says_what_to_install(online, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    monkeypatch.delenv("NPTAD_CACHE")
    with pytest.raises(DataError, match=r"pip install 'nptad\[bench\]'"):
        load("wine")
    (tmp_path / "wine.npz").write_bytes(npz())
    np.testing.assert_array_equal(load("wine", tmp_path).x, TINY.x)


# The commands


@pytest.fixture
def two_sets(online, site, monkeypatch):
    """Wine can be downloaded, glass cannot, and there is nothing else but mulcross."""
    glass = replace(online, name="glass", source=f"{site.address}/glass.npz", note="Fragile [bench].")
    entries = {"glass": glass, "wine": online, "mulcross": DATASETS["mulcross"]}
    monkeypatch.setattr(datasets, "DATASETS", entries)
    monkeypatch.setattr(datasets, "EXTRA", {})
    monkeypatch.setenv("COLUMNS", "250")
    return entries


def row(output, name):
    (line,) = [line for line in output.splitlines() if line.startswith(f"│ {name} ")]
    return [cell.strip() for cell in line.strip("│").split("│")]


def run(*arguments):
    with contextlib.suppress(SystemExit):
        data_cli.data_app(list(arguments))


def test_list_shows_sizes_what_is_here_sources_and_notes(two_sets, capsys):
    fetch("wine")
    capsys.readouterr()
    run("list")
    out = capsys.readouterr().out
    assert row(out, "wine")[1:] == ["4 x 2", "0", "1", "yes", two_sets["wine"].licence]
    assert row(out, "glass")[4] == "no"
    assert row(out, "mulcross")[4] == "generated"
    assert f"glass: {two_sets['glass'].source} Fragile [bench].\n" in out


def test_fetch_goes_on_after_a_failure_and_says_at_the_end_what_failed(two_sets, site, cache, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with pytest.raises(DataError, match="1 of 2 data sets could not be fetched: glass; see above"):
        run("fetch")
    out, err = capsys.readouterr()
    assert row(out, "wine") == ["wine", str(cache / "wine.npz")]
    assert "404" in row(out, "glass")[1]
    assert "wine" in err
    assert site.requests == ["/glass.npz", "/wine.npz"]


def test_fetch_of_a_generated_set_has_nothing_to_do(two_sets, site, capsys):
    run("fetch", "mulcross")
    assert "nothing to download" in row(capsys.readouterr().out, "mulcross")[1]
    assert site.requests == []


def test_fetch_knows_the_names_before_it_starts(two_sets, site):
    with pytest.raises(DataError, match="There is no data set 'whine', did you mean 'wine'"):
        run("fetch", "glass", "whine")
    assert site.requests == []


def test_verify_tells_ok_wrong_missing_and_not_verified(two_sets, tmp_path, capsys):
    (tmp_path / "wine.npz").write_bytes(npz())
    run("verify", "--data", str(tmp_path))
    out = capsys.readouterr().out
    assert row(out, "wine")[1:] == ["ok", str(tmp_path / "wine.npz")]
    assert row(out, "glass")[1] == "missing"
    assert row(out, "mulcross")[1] == "generated"

    two_sets["wine"] = replace(two_sets["wine"], sha256=None)
    (tmp_path / "glass.npz").write_bytes(npz(X=TINY.x + 1))
    with pytest.raises(DataError, match="1 of 2 data sets are wrong or missing: glass; see above"):
        run("verify", "wine", "glass", "--data", str(tmp_path))
    out = capsys.readouterr().out
    assert row(out, "wine")[1] == "not verified"
    assert row(out, "glass")[1] == "wrong"
    assert "is not the data of the registry" in row(out, "glass")[2]

    (tmp_path / "glass.npz").unlink()
    with pytest.raises(DataError, match="1 of 1 data sets are wrong or missing: glass"):  # asked for by name
        run("verify", "glass", "--data", str(tmp_path))
