"""A saved model scores as before, bit for bit; a damaged one is refused in one sentence; nothing is half-written."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import nptad
from nptad import InputError, ModelFileError, Settings
from nptad.io import atomic
from nptad.models import config as model_config
from nptad.models import folder
from saved_models import FILES, path_of, reseal
from tiny_detector import tiny


def mixed_table(n_rows=30, seed=0):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "size": rng.normal(size=n_rows),
            "weight": np.where(rng.random(n_rows) < 0.2, np.nan, rng.normal(size=n_rows)),
            "colour": rng.choice(np.array(["red", "blue", "grün", None]), n_rows).tolist(),
            "flag": rng.random(n_rows) < 0.5,
        }
    )


@pytest.fixture(scope="module")
def detector():
    return tiny().fit(mixed_table())


@pytest.fixture(scope="module")
def saved_once(detector, tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved") / "model"
    detector.save(directory)
    return directory


@pytest.fixture
def saved(saved_once, tmp_path):
    """A fresh copy of a saved model, to be damaged."""
    return Path(shutil.copytree(saved_once, tmp_path / "model"))


@pytest.fixture
def full_disk(tmp_path):
    """A mounted file system of 256 kB; a tiny model fits into it once."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a small file system is not allowed here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def contents(directory):
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def same_json(a, b):
    try:
        return json.loads(a) == json.loads(b)
    except ValueError:
        return False


def assert_refused(directory, message):
    with pytest.raises(ModelFileError, match=message) as caught:
        nptad.load(directory)
    assert "\n" not in str(caught.value)
    assert str(directory) in str(caught.value)


class Bomb:
    """Unpickling it creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


# What is saved comes back


@pytest.mark.filterwarnings("ignore:The only member")
@pytest.mark.parametrize("n_members", [1, 2])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scale_masks": True},
        {"aggregation": "max"},
        {"scale_masks": True, "aggregation": "nearest"},
        {"row_attention": "low_rank"},
        {"context_size": 10},
    ],
    ids=lambda options: "".join(options) or "plain",
)
def test_scores_after_loading_are_equal_bit_for_bit(n_members, options, tmp_path):
    table = mixed_table()
    detector = tiny(n_members=n_members, settings=Settings(**options)).fit(table)
    detector.save(tmp_path / "model")
    loaded = nptad.load(tmp_path / "model")
    for rows in (table, mixed_table(20, seed=1), table[3:4]):
        assert loaded.score_samples(rows).tobytes() == detector.score_samples(rows).tobytes()
        assert np.array_equal(loaded.predict(rows), detector.predict(rows))
        assert (
            loaded.detect(rows, false_alarm_rate=0.2).p_value.tobytes()
            == detector.detect(rows, false_alarm_rate=0.2).p_value.tobytes()
        )
    assert loaded.explain(table[:3]) == detector.explain(table[:3])


def test_everything_learnt_comes_back(detector, saved_once):
    loaded = nptad.load(saved_once)
    assert loaded.get_params() == detector.get_params()
    for name in ("schema_", "settings_", "history_", "offset_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(detector, name)
    assert loaded.feature_names_in_.tolist() == detector.feature_names_in_.tolist()
    assert loaded.training_scores_.tobytes() == detector.training_scores_.tobytes()
    for name in ("rows", "by_member", "scores"):
        assert getattr(loaded.calibration_, name).tobytes() == getattr(detector.calibration_, name).tobytes()


def test_a_loaded_model_saves_to_the_same_files(saved_once, tmp_path):
    nptad.load(saved_once).save(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(saved_once)


def test_an_array_model_knows_no_names_after_loading(tmp_path):
    x = np.random.default_rng(0).normal(size=(30, 3))
    tiny().fit(x).save(tmp_path / "model")
    loaded = nptad.load(tmp_path / "model")
    assert not hasattr(loaded, "feature_names_in_")
    assert np.isfinite(loaded.score_samples(x)).all()


@pytest.mark.parametrize(
    "parameters",
    [
        {"columns": {0: "category"}},
        {"columns": {"size": "category"}},
        {"n_members": np.int64(2), "learning_rate": np.float32(0.01)},
        {"random_state": np.random.RandomState(0)},
        {"random_state": np.random.default_rng(0)},
        {"device": torch.device("cpu")},
        {"contamination": np.float64(0.1), "verbose": False},
        {"settings": Settings(mask_rate=np.float32(0.2), mask_sizes=(1, 2))},
    ],
    ids=lambda parameters: " ".join(f"{k}={type(v).__name__}" for k, v in parameters.items()),
)
def test_every_parameter_that_fit_accepts_can_be_saved(parameters, tmp_path):
    table = mixed_table()
    detector = tiny(**parameters).fit(table)
    detector.save(tmp_path / "model")
    assert np.array_equal(nptad.load(tmp_path / "model").score_samples(table), detector.score_samples(table))


ODD_NAMES = [
    "",
    " ",
    "context",
    "model.masks",
    "left_out",
    "größe",
    "列",
    "🦉",
    "a\nb",
    "a\0b",
    "x" * 10_000,
    "\ud800",
    "a/b",
]


@settings(max_examples=5, deadline=None)
@given(st.lists(st.text(max_size=20), min_size=1, max_size=4, unique=True))
@example(ODD_NAMES)
def test_any_column_name_survives(tmp_path_factory, names):
    directory = tmp_path_factory.mktemp("names") / "model"
    values = np.random.default_rng(0).normal(size=(20, len(names)))
    table = pd.DataFrame(values, columns=pd.Index(names, dtype=object))
    detector = tiny(n_steps=2, max_masked=1).fit(table)
    detector.save(directory)
    loaded = nptad.load(directory)
    assert loaded.feature_names_in_.tolist() == names
    assert np.array_equal(loaded.score_samples(table), detector.score_samples(table))


def test_any_category_survives(tmp_path):
    table = pd.DataFrame(
        {"t": pd.Series(["", "nan", "None", "\ud800", "a\0", "🦉"] * 5, dtype=object), "n": np.arange(30.0) ** 2}
    )
    detector = tiny().fit(table)
    detector.save(tmp_path / "model")
    loaded = nptad.load(tmp_path / "model")
    assert loaded.schema_ == detector.schema_
    assert np.array_equal(loaded.score_samples(table), detector.score_samples(table))


def test_the_model_card_tells_rows_columns_and_use(saved_once):
    card = (saved_once / "README.md").read_text(encoding="utf-8")
    assert "30 rows with 2 numeric and 2 categorical\ncolumns" in card
    assert "size, weight, colour, flag" in card
    assert "nptad.load" in card


def test_the_config_names_format_and_library_versions(saved_once):
    config = json.loads((saved_once / "config.json").read_text(encoding="utf-8"))
    assert config["format"] == model_config.FORMAT
    assert {"nptad", "torch", "numpy", "scikit-learn", "pyarrow", "python"} <= set(config["versions"])


def modes(directory):
    return stat.S_IMODE(directory.stat().st_mode), {stat.S_IMODE(p.stat().st_mode) for p in directory.iterdir()}


def test_a_new_model_can_be_read_by_its_owner_only(detector, tmp_path):
    old = os.umask(0o000)
    try:
        detector.save(tmp_path / "model")
    finally:
        os.umask(old)
    assert modes(tmp_path / "model") == (0o700, {0o600})


@pytest.mark.parametrize(("directory", "file"), [(0o755, 0o644), (0o750, 0o640), (0o700, 0o600)])
def test_a_replaced_model_keeps_its_mode(saved, directory, file):
    for path in saved.iterdir():
        path.chmod(file)
    saved.chmod(directory)
    tiny(random_state=7).fit(mixed_table()).save(saved)
    assert modes(saved) == (directory, {file})


# What is damaged is refused


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_refused(saved, name):
    path_of(saved, name).unlink()
    assert_refused(saved, f"{name.partition('.')[0]}.* cannot be read.*incomplete")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_regular_file_is_refused(saved, name, make):
    path = path_of(saved, name)
    path.unlink()
    make(path)
    assert_refused(saved, f"{name.partition('.')[0]}.* cannot be read.*incomplete")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kept", [0.0, 0.5, 0.999])
def test_a_truncated_file_is_refused(saved, name, kept):
    path = path_of(saved, name)
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data))])
    assert_refused(saved, rf"{path.name} .*(damaged|changed)")


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=20, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_refused(saved_once, tmp_path_factory, name, place, bit):
    directory = Path(shutil.copytree(saved_once, tmp_path_factory.mktemp("flipped") / "model"))
    path = path_of(directory, name)
    data = bytearray(path.read_bytes())
    data[int(place * len(data))] ^= 1 << bit
    path.write_bytes(data)
    assume(name != "config.json" or not same_json(data, path_of(saved_once, name).read_bytes()))  # 1e-3 and 1E-3
    assert_refused(directory, "damaged|changed|format")


@pytest.mark.parametrize("changes", [{"offset": 0.0}, {"schema": {}}, {"history": []}, {"note": "\ud800"}], ids=str)
def test_an_edited_config_is_refused(saved, changes):
    config = json.loads((saved / "config.json").read_text()) | changes
    (saved / "config.json").write_text(json.dumps(config))
    assert_refused(saved, r"config\.json was changed")


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{}", "7", '"a"', '{"format": "1"}', "[" * 100_000, "\xff"], ids=range(9)
)
def test_a_config_that_is_none_of_ours_is_refused(saved, text):
    (saved / "config.json").write_text(text, encoding="latin-1")
    assert_refused(saved, r"config\.json is damaged")


@pytest.mark.parametrize(
    "changes",
    [
        {"offset": "x"},
        {"offset": None},
        {"history": []},
        {"history": [{}]},
        {"history": 3},
        {"schema": []},
        {"settings": None},
        {"parameters": 7},
        {"parameters": {}},
        {"parameters": {"settings": None, "columns": 7}},
        {"parameters": {"settings": None, "columns": [["a"]]}},
        {"parameters": {"settings": None, "categorical_features": 7}},
    ],
    ids=str,
)
def test_a_config_of_nonsense_is_refused_even_if_it_is_sealed(saved, changes):
    reseal(saved, **changes)
    assert_refused(saved, "save the model again")


@pytest.mark.parametrize(
    "changes", [{"kind": "odd"}, {"content": "odd"}, {"mean": None}, {"scale": 0.0}, {"name": None}], ids=str
)
def test_a_column_of_nonsense_is_refused_even_if_it_is_sealed(saved, changes):
    schema = json.loads((saved / "config.json").read_text())["schema"]
    schema["columns"][0] |= changes
    reseal(saved, schema=schema)
    assert_refused(saved, "save the model again")


@pytest.mark.parametrize("checksums", [None, 3, [], "model"])
def test_checksums_that_are_none_are_refused(saved, checksums):
    config = json.loads((saved / "config.json").read_text()) | {"checksums": checksums}
    config["checksum"] = model_config.config_checksum(config)
    (saved / "config.json").write_text(json.dumps(config))
    assert_refused(saved, "save the model again")


def test_a_newer_format_asks_for_a_newer_nptad(saved):
    reseal(saved, format=model_config.FORMAT + 1)
    assert_refused(saved, f"has format {model_config.FORMAT + 1}, .*install a newer nptad")


def test_an_older_format_asks_for_another_fit(saved):
    reseal(saved, format=5)
    assert_refused(saved, "has format 5, .*fit the detector again")


@pytest.mark.parametrize("form", [6, 7])
def test_a_model_of_an_earlier_format_gives_the_scores_it_gave(form):
    """The fixtures were saved by the last versions that wrote these formats; the scores are those of format 6."""
    home = Path(__file__).parent / f"format-{form}"
    expected = json.loads((home / "expected.json").read_text(encoding="utf-8"))
    rows = pd.DataFrame(expected["rows"]).assign(when=lambda table: pd.to_datetime(table["when"]))
    detector = nptad.load(home / "model")
    found = detector.detect(rows, false_alarm_rate=0.1)
    np.testing.assert_allclose(found.score, expected["score"], rtol=1e-5)
    np.testing.assert_allclose(found.p_value, expected["p_value"])
    assert detector.offset_ == expected["offset"]
    assert [[cell.column for cell in why.reasons] for why in detector.explain(rows)] == expected["reasons"]


def test_files_of_two_models_do_not_mix(saved, tmp_path):
    tiny(random_state=1).fit(mixed_table(seed=1)).save(tmp_path / "other")
    shutil.copy(path_of(tmp_path / "other", "context.parquet"), path_of(saved, "context.parquet"))
    assert_refused(saved, "context-.*parquet is damaged or was changed")


def test_what_is_no_model_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    assert_refused(tmp_path / "file", "is not a directory")
    assert_refused(tmp_path / "nothing", "is not a directory")
    assert_refused(tmp_path / "empty", "holds no saved model")


def test_the_card_is_for_people_and_may_be_changed(saved):
    (saved / "README.md").write_text("my notes")
    nptad.load(saved)
    (saved / "README.md").unlink()
    nptad.load(saved)


def test_a_wrong_device_is_not_blamed_on_the_files(saved_once):
    with pytest.raises(InputError, match="device 'abacus' cannot be used"):
        nptad.load(saved_once, device="abacus")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("dump", [pickle.dump, torch.save], ids=["pickle", "torch"])
@pytest.mark.parametrize("sealed", [False, True], ids=["as found", "with matching checksums"])
def test_a_planted_pickle_is_refused_and_not_run(saved, tmp_path, name, dump, sealed):
    planted = io.BytesIO()
    dump(Bomb(tmp_path / "exploded"), planted)
    if sealed and name != "config.json":
        reseal(saved, {name: planted.getvalue()})
    else:
        path_of(saved, name).write_bytes(planted.getvalue())
    with pytest.raises(ModelFileError):
        nptad.load(saved)
    assert not (tmp_path / "exploded").exists()


def test_a_pickle_beside_the_model_is_not_touched(saved, tmp_path):
    for name in ("model.pkl", "model.pt", "__init__.py", "config.pkl"):
        (saved / name).write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    nptad.load(saved)
    assert not (tmp_path / "exploded").exists()


# Nothing is half-written


def test_an_earlier_model_is_replaced(saved, tmp_path):
    other = tiny(random_state=7).fit(mixed_table())
    other.save(saved)
    assert np.array_equal(nptad.load(saved).score_samples(mixed_table()), other.score_samples(mixed_table()))
    assert os.listdir(tmp_path) == ["model"]


def test_an_empty_directory_is_filled_and_parents_are_made(detector, tmp_path):
    (tmp_path / "empty").mkdir()
    detector.save(tmp_path / "empty")
    detector.save(str(tmp_path / "a" / "b" / "model"))
    nptad.load(tmp_path / "empty")
    nptad.load(tmp_path / "a" / "b" / "model")


def test_a_link_to_a_model_stays_a_link(detector, saved, tmp_path):
    (tmp_path / "link").symlink_to(saved)
    detector.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link", "model"]


def test_saving_to_the_longest_possible_name_works(detector, tmp_path):
    detector.save(tmp_path / ("m" * 255))
    assert os.listdir(tmp_path) == ["m" * 255]


@pytest.mark.parametrize(
    "files_there",
    [
        {"notes.txt": "mine"},
        {"config.json": '{"architectures": ["Other"]}'},
        {"config.json": "not json", "model.safetensors": "other", "README.md": "other"},
        {"config.json": "[]"},
    ],
    ids=lambda f: " ".join(f),
)
def test_a_directory_of_somebody_else_is_left_alone(detector, tmp_path, files_there):
    target = tmp_path / "foreign"
    target.mkdir()
    for name, text in files_there.items():
        (target / name).write_text(text)
    before = contents(tmp_path)
    with pytest.raises(InputError, match="name another directory"):
        detector.save(target)
    assert contents(tmp_path) == before


def test_a_model_directory_with_files_of_the_user_is_left_alone(detector, saved, tmp_path):
    (saved / "notes.txt").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(InputError, match="name another directory"):
        detector.save(saved)
    assert contents(tmp_path) == before


def test_the_current_directory_is_never_replaced(detector, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place in (".", tmp_path, "..", "x/.."):
        with pytest.raises(InputError, match="current directory"):
            detector.save(place)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_left_alone(detector, tmp_path):
    (tmp_path / "file").write_text("mine")
    for target in (tmp_path / "file", tmp_path / "file" / "model"):
        with pytest.raises(InputError, match="file"):
            detector.save(target)
    assert contents(tmp_path) == {"file": b"mine"}


STEPS = {
    "large files": (Path, "write_bytes"),
    "card and config": (Path, "write_text"),
    "config": (folder, "to_json"),
    "flush": (atomic.os, "fsync"),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["OSError", "Ctrl-C"]
)
def test_a_failure_while_writing_leaves_the_old_model(detector, saved, tmp_path, monkeypatch, step, error):
    before = contents(tmp_path)

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(*STEPS[step], fail)
    with pytest.raises((InputError, KeyboardInterrupt)) as caught:
        detector.save(saved)
    assert isinstance(caught.value, KeyboardInterrupt) or "No space left" in str(caught.value)
    assert contents(tmp_path) == before
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("failing_call", [0, 1, 2])
@pytest.mark.parametrize("old", [True, False], ids=["replaced", "new"])
def test_a_failure_while_taking_the_place_leaves_the_old_model(
    detector, saved, tmp_path, monkeypatch, failing_call, old
):
    """The third file to be renamed is config.json, which makes the new model the one that is read."""
    if not old:
        shutil.rmtree(saved)
    before = contents(tmp_path)
    replace, calls = Path.replace, []

    def fail_once(self, target):
        calls.append(target)
        if len(calls) - 1 == failing_call:
            raise OSError(5, "Input/output error")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fail_once)
    with pytest.raises(InputError, match="cannot be written"):
        tiny(random_state=7).fit(mixed_table()).save(saved)
    assert contents(tmp_path) == before
    assert os.listdir(tmp_path) == (["model"] if old else [])


@pytest.mark.parametrize("form", [6, 7])
def test_a_model_of_an_earlier_format_is_replaced_and_nothing_of_it_is_left(detector, tmp_path, form):
    shutil.copytree(Path(__file__).parent / f"format-{form}" / "model", tmp_path / "model")
    detector.save(tmp_path / "model")
    detector.save(tmp_path / "new")
    assert contents(tmp_path / "model") == contents(tmp_path / "new")


def test_what_a_killed_save_left_is_removed_by_the_next_one(detector, saved, tmp_path):
    expected = contents(saved)
    for place in (saved, tmp_path / "first"):
        place.mkdir(exist_ok=True)
        (place / f"model-{'0' * 16}.safetensors").write_bytes(b"of a model that was not finished")
        (place / ".nptad-0123.tmp").write_bytes(b"half a file")
        detector.save(place)
        assert contents(place) == expected


def test_nothing_is_removed_from_a_model_whose_config_cannot_be_read(saved, monkeypatch):
    before = contents(saved)

    def fail(*args, **kwargs):
        raise ModelFileError("cannot be read")

    monkeypatch.setattr(folder, "parse_config", fail)
    folder._remove_unused(saved)
    assert contents(saved) == before


def test_a_full_disk_leaves_the_old_model(detector, full_disk):
    detector.save(full_disk / "model")
    before = contents(full_disk)
    larger = tiny(embedding_dim=32).fit(mixed_table())
    with pytest.raises(InputError, match="No space left on device"):
        larger.save(full_disk / "model")
    assert contents(full_disk) == before
    assert os.listdir(full_disk) == ["model"]


_WITHOUT_PERMISSION = """
import os, sys
from pathlib import Path
from nptad.errors import NPTADError
from nptad.models.folder import read_schema, require_room
os.seteuid(65534)
for use, name in ((read_schema, "closed"), (read_schema, "open"), (require_room, "closed"), (require_room, "new")):
    try:
        use(Path(name))
    except NPTADError as error:
        print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_missing_permission_is_told(saved, tmp_path):
    for name, mode in (("closed", 0o700), ("open", 0o755)):
        shutil.copytree(saved, tmp_path / name).chmod(mode)
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == "root" and path.stat().st_mode & 0o777 == 0o700:  # what pytest makes
            path.chmod(0o755)
    program = [sys.executable, "-P", "-c", _WITHOUT_PERMISSION]
    ran = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        "closed cannot be read (Permission denied).",
        "open/config.json cannot be read (Permission denied); without it the saved model is incomplete.",
        f"{tmp_path}/closed cannot be written: Permission denied.",
        f"{tmp_path}/new cannot be written: Permission denied ({tmp_path}).",
    ]
