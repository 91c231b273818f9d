"""The converters, on small samples of the published formats."""

from __future__ import annotations

import io
import sys
import tarfile
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.io import savemat

from nptad.bench import convert
from nptad.errors import DataError

X = np.array([[1, 2], [3, 4], [250, 6]], dtype=np.uint8)
Y = np.array([0, 0, 1], dtype=np.uint8)

ECOLI = """\
AAT_ECOLI   0.49  0.29  0.48  0.50  0.56  0.24  0.35   cp
ATKC_ECOLI  0.85  0.53  0.48  0.50  0.53  0.52  0.35   imS
LPP_ECOLI   0.71  0.49  1.00  0.50  0.54  0.75  0.62  omL
EMTA_ECOLI  0.69  0.59  0.48  0.50  0.77  0.39  0.21   om
MULI_ECOLI  0.77  0.57  1.00  0.50  0.37  0.54  0.01  imL
"""

ABALONE = """\
M,0.455,0.365,0.095,0.514,0.2245,0.101,0.15,15
F,0.53,0.42,0.135,0.677,0.2565,0.1415,0.21,9
M,0.44,0.365,0.125,0.516,0.2155,0.114,0.155,10
I,0.33,0.255,0.08,0.205,0.0895,0.0395,0.055,7
I,0.24,0.175,0.045,0.07,0.0315,0.0235,0.02,3
F,0.68,0.55,0.175,1.798,0.815,0.3925,0.455,21
I,0.425,0.3,0.095,0.3515,0.141,0.0775,0.12,8
"""

SEISMIC = """\
% a comment
@relation seismic-bumps
@attribute seismic {a,b,c,d}
@attribute shift {W, N}
@attribute genergy real
@attribute class {1,0}
@data
a,N,15180,0
b,W,-72.5,1
c,W,0,0
"""

CREDITCARD = '"Time","V1","V2","Amount","Class"\n0,-1.3598071336738,2,149.62,"0"\n1,1e-3,-3,0,"1"\n'


def archive(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:xz") as file:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture
def published(tmp_path):
    """The path of a downloaded file; as in a download, without a telling name."""
    return tmp_path / "published"


def test_mat_of_odds_keeps_values_order_and_types(published):
    with published.open("wb") as file:
        savemat(file, {"X": X, "y": Y[:, None], "other": ["ignored"]})
    x, y = convert.read_mat(published)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)
    assert y.ndim == 1


def matlab_73(path):
    header = b"MATLAB 7.3 MAT-file".ljust(116) + bytes(8) + b"\x00\x02IM"
    path.write_bytes(header + bytes(400))


def test_mat_73_without_h5py_says_what_to_install(published, monkeypatch):
    matlab_73(published)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(DataError, match=r"MATLAB 7.3 files need h5py, `pip install h5py`"), convert.reading("it", "go"):
        convert.read_mat(published)


def test_mat_73_with_h5py_turns_the_stored_columns_into_rows(published, monkeypatch):
    matlab_73(published)
    stored = {"X": X.T, "y": Y[None, :]}
    monkeypatch.setitem(sys.modules, "h5py", SimpleNamespace(File=lambda path, mode: nullcontext(stored)))
    x, y = convert.read_mat(published)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)


def test_npz_of_adbench(published):
    with published.open("wb") as file:
        np.savez(file, X=X, y=Y)
    x, y = convert.read_adbench(published)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, Y)


def test_npz_with_pickled_content_is_refused_and_not_executed(published, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    with published.open("wb") as file:
        np.savez(file, X=np.array([Bomb()], dtype=object), y=Y)
    with pytest.raises(DataError, match="cannot be read"), convert.reading("it", "try again"):
        convert.read_adbench(published)
    assert not (tmp_path / "executed").exists()


def test_ecoli_has_three_rare_classes_as_anomalies(published):
    published.write_text(ECOLI)
    x, y = convert.read_ecoli(published)
    assert x.shape == (5, 7)
    assert x[0].tolist() == [0.49, 0.29, 0.48, 0.50, 0.56, 0.24, 0.35]
    assert y.tolist() == [False, True, True, False, True]


def test_abalone_keeps_middle_and_extreme_ages_and_codes_the_sex(published):
    published.write_text(ABALONE)
    x, y = convert.read_abalone(published)
    assert x.shape == (5, 8)
    assert x[0].tolist() == [1, 0.53, 0.42, 0.135, 0.677, 0.2565, 0.1415, 0.21]
    assert x[:, 0].tolist() == [1, 0, 2, 1, 2]
    assert y.tolist() == [False, False, True, True, False]


def test_seismic_codes_categories_alphabetically(published):
    published.write_text(SEISMIC)
    x, y = convert.read_seismic(published)
    assert x.tolist() == [[0, 0, 15180], [1, 1, -72.5], [2, 1, 0]]
    assert y.tolist() == [False, True, False]


def test_creditcard_drops_the_time_and_rounds_to_single_precision(published):
    published.write_text(CREDITCARD)
    x, y = convert.read_creditcard(published)
    expected = np.array([[-1.3598071336738, 2, 149.62], [1e-3, -3, 0]], dtype=np.float32)
    np.testing.assert_array_equal(x, expected)
    assert y.tolist() == [0, 1]


def test_backdoor_is_the_table_in_the_archive_and_nothing_is_unpacked(published):
    table = b"dur,proto=tcp,class\n0.000011,1,0\n0.5,0,1\n"
    published.write_bytes(archive({"../._escape.csv": b"companion", "../escape.csv": table}))
    x, y = convert.read_backdoor(published)
    assert x.tolist() == [[0.000011, 1], [0.5, 0]]
    assert y.tolist() == [0, 1]
    assert not (published.parent.parent / "escape.csv").exists()
    assert [path.name for path in published.parent.iterdir()] == ["published"]


ALL = ["read_mat", "read_adbench", "read_ecoli", "read_abalone", "read_seismic", "read_creditcard", "read_backdoor"]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("content", [b"<!DOCTYPE html>\n<html>404</html>\n", b"\x89\x00\xff" * 200])
def test_anything_else_is_one_sentence(published, name, content):
    published.write_bytes(content)
    with pytest.raises(DataError) as raised, convert.reading("wine: what http://x sent", "try again"):
        getattr(convert, name)(published)
    message = str(raised.value)
    assert message.startswith("wine: what http://x sent cannot be read (")
    assert message.endswith("); try again.")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("read_ecoli", ECOLI[:-6].encode()),
        ("read_abalone", ABALONE[:-6].encode()),
        ("read_seismic", SEISMIC[:-6].encode()),
        ("read_creditcard", CREDITCARD[:-6].encode()),
        ("read_backdoor", archive({"table.csv": b"dur,class\n" + b"0.000011,0\n" * 50})[:100]),
    ],
)
def test_a_file_cut_inside_a_row_is_refused(published, name, content):
    published.write_bytes(content)
    with pytest.raises(DataError), convert.reading("it", "try again"):
        getattr(convert, name)(published)


def test_running_out_of_memory_is_not_a_broken_file():
    with pytest.raises(MemoryError), convert.reading("it", "try again"):
        raise MemoryError
