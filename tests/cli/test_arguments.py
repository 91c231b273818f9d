"""What a command refuses before it begins, and how it understands names and numbers."""

from __future__ import annotations

import os

import pytest

from nptad.cli.arguments import check_places, row_numbers
from nptad.errors import InputError
from nptad.tables.selection import column_names, require_columns


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("id", ["id"]),
        (" id , size,", ["id", "size"]),
        ("Weight, kg", ["Weight, kg"]),
        ("id,Weight, kg,size", ["id", "Weight, kg", "size"]),
        ("a,b", ["a,b"]),
        ("b,a", ["b", "a"]),
        ("nothing,id", ["nothing", "id"]),
        (" padded ", [" padded "]),
        ("", []),
        (" , ", []),
    ],
)
def test_names_are_separated_by_commas_unless_a_column_has_them_in_its_name(text, names):
    assert column_names(text, ["id", "size", "Weight, kg", "a", "b", "a,b", " padded "]) == names


def test_row_numbers_are_single_rows_and_ranges():
    assert row_numbers("4, 1-3", 4) == [3, 0, 1, 2]
    with pytest.raises(InputError, match="no row 2: the table has 1 row,"):
        row_numbers("2", 1)
    for wrong, named in {
        "5": "no row 5: the table has 4 rows,",
        "0-2": "no row 0: the table has 4 rows, counted from 1",
        "x": "'x'",
        "-1": "'-1'",
        "3-1": "'3-1'",
        ",": "--rows is empty",
    }.items():
        with pytest.raises(InputError, match=named):
            row_numbers(wrong, 4)


def test_a_huge_range_of_rows_is_refused_at_once():
    with pytest.raises(InputError, match="no row 99999999999"):
        row_numbers("0-99999999999", 4)


def test_unknown_names_are_told_with_their_option():
    require_columns(["a"], ["a", "b"], "--as: ")
    with pytest.raises(InputError, match=r"--as: There is no column 'c'; the table has a, b"):
        require_columns(["a", "c"], ["a", "b"], "--as: ")


def test_places_that_cannot_be_written_are_refused(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "circle.csv").symlink_to(tmp_path / "circle.csv")
    places = [
        tmp_path,
        tmp_path / "circle.csv",
        tmp_path / "file" / "scores.csv",
        tmp_path / "file" / "deep" / "scores.csv",
    ]
    places += ["/proc/scores.csv"] * os.path.exists("/proc")  # where nobody may write, whatever the permissions say
    for place in places:
        with pytest.raises(InputError, match=r"cannot be written"):
            check_places(place)


def test_places_that_can_be_written_are_left_alone(tmp_path):
    (tmp_path / "old.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "old.csv")
    check_places(None, "-", tmp_path / "old.csv", tmp_path / "a" / "b.csv", tmp_path / "link.csv", os.devnull)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.csv", "old.csv"]
    assert (tmp_path / "old.csv").read_text() == "old"
