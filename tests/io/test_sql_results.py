"""Results in tables of data bases: whole or not at all, and nobody's other table is touched."""

from __future__ import annotations

import datetime
import decimal
import sys

import duckdb
import postgresql_server
import pyarrow as pa
import pytest
from adbc_driver_postgresql import dbapi

from nptad import InputError
from nptad.cli.arguments import check_places
from nptad.io import sql_results
from nptad.io.formats import output_format
from nptad.io.places import table_of
from nptad.io.sources import read_source
from nptad.io.write import write_table

NOON = datetime.datetime(2024, 1, 2, 12, 0, 0, 250000)


def results(scores=(0.5, 2.0, 3.5), **carried):
    n_rows = len(scores)
    return pa.table(
        {
            "row": range(1, n_rows + 1),
            **carried,
            "score": scores,
            "p_value": [0.5] * n_rows,
            "anomaly": [score > 3 for score in scores],
            "reasons": [None] * (n_rows - 1) + ["size is 9, expected 3"],
        }
    )


def read(address, name="scores"):
    return read_source(f"{address}#select * from {name}").table


def names_in(address):
    query = "select table_name as n from information_schema.tables where table_schema in ('main', 'public')"
    return set(read_source(f"{address}#{query}").table["n"].to_pylist())


@pytest.fixture(scope="module")
def server():
    programs = postgresql_server.programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed here (apt-get install postgresql)")
    with postgresql_server.running(programs) as address:
        yield address


@pytest.fixture(params=["file", "server"])
def address(request, tmp_path):
    """A data base whose only table is ``orders``."""
    if request.param == "file":
        address = f"duckdb:{tmp_path}/shop.db"
    else:
        address = request.getfixturevalue("server")
        run(address, "drop schema public cascade", "create schema public")
    run(address, "create table orders(id int)", "insert into orders values (7)")
    return address


def run(address, *statements):
    if address.startswith("duckdb:"):
        with duckdb.connect(address.removeprefix("duckdb:")) as connection:
            for statement in statements:
                connection.execute(statement)
        return
    with dbapi.connect(address) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        connection.commit()


def test_results_are_read_as_they_were_written(address):
    written = results(
        name=["Ann", None, "=1+1"],
        Day=pa.array([NOON.date(), None, NOON.date()], pa.date32()),
        time=pa.array([NOON, None, NOON], pa.timestamp("us")),
        kind=pa.array(["a", "b", None]).dictionary_encode(),
        nothing=pa.nulls(3),
        large=pa.array([2**64 - 1, 0, None], pa.uint64()),
        small=pa.array([1, 2, None], pa.uint64()),
        half=pa.array([1.5, None, 2], pa.float16()),
        price=[decimal.Decimal("1.25"), None, decimal.Decimal("2.50")],
        days=pa.array([NOON.date(), None, NOON.date()], pa.date64()),
        lists=[[1, 2], None, []],
        nested=[{"a": 1}, None, {"a": None}],
    )
    check_places(f"{address}#scores")
    write_table(written, f"{address}#scores")
    table = read(address)
    assert table.column_names == written.column_names
    expected = {
        **written.to_pydict(),
        "large": [float(2**64 - 1), 0.0, None],
        "price": [1.25, None, 2.5],
        "lists": ["[1, 2]", None, "[]"],
        "nested": ['{"a": 1}', None, '{"a": null}'],
    }
    assert table.to_pydict() == expected
    assert [table.schema.field(name).type for name in ("row", "score", "anomaly", "small")] == [
        pa.int64(),
        pa.float64(),
        pa.bool_(),
        pa.int64(),
    ]
    assert names_in(address) == {"orders", "scores"}


def test_the_rows_of_earlier_results_are_replaced(address):
    run(address, "create schema if not exists night")
    for name in ("scores", "night.scores"):
        write_table(results(), f"{address}#{name}")
        run(address, "drop view if exists bad", f"create view bad as select * from {name} where anomaly")
        check_places(f"{address}#{name}")
        assert read(address, name).num_rows == 3  # the check has changed nothing
        write_table(results([1.0, 9.0]), f"{address}#{name}")
        assert read(address, name).to_pydict() == results([1.0, 9.0]).to_pydict()
        assert read(address, "bad")["score"].to_pylist() == [9.0]  # what depends on the table is still there
    write_table(results().slice(0, 0), f"{address}#scores")
    assert read(address).num_rows == 0
    assert read(address, "night.scores").num_rows == 2


def test_a_table_that_is_no_result_is_refused(address):
    for refusing in (check_places, lambda place: write_table(results(), place)):
        with pytest.raises(
            InputError, match=r"orders of .* has no column 'score', so it is no table of results"
        ) as told:
            refusing(f"{address}#orders")
        assert "secret" not in str(told.value)
    assert read(address, "orders").to_pydict() == {"id": [7]}


def test_results_with_other_columns_are_refused(address):
    write_table(results(), f"{address}#scores")
    with pytest.raises(InputError, match=r"scores of .* has other columns than these results: 'name'"):
        write_table(results(name=["a", "b", "c"]), f"{address}#scores")
    assert read(address).equals(results())


def test_a_failure_leaves_what_was_there(address):
    write_table(results(), f"{address}#small")
    types = "score float, p_value float, anomaly bool, reasons varchar"
    run(
        address, f"create table scores(row_id int, {types}, check (score < 5))", "insert into scores(row_id) values (1)"
    )
    failing = results([1.0, 9.0]).rename_columns(["row_id", *results().column_names[1:]])
    check_places(f"{address}#scores")
    with pytest.raises(InputError, match=r"scores of .* cannot be written: .*") as told:
        write_table(failing, f"{address}#scores")
    assert "\n" not in str(told.value)
    assert "secret" not in str(told.value)
    assert read(address)["row_id"].to_pylist() == [1]
    unknown = results(cells=pa.array([decimal.Decimal(10) ** 60, None, None], pa.decimal256(70, 1)))
    with pytest.raises(InputError, match=r"new of .* cannot be written"):
        write_table(unknown if address.startswith("duckdb:") else results(cells=["a\0", "b", "c"]), f"{address}#new")
    assert names_in(address) == {"orders", "small", "scores"}


def test_an_interruption_after_half_of_the_work_changes_nothing(address, monkeypatch):
    write_table(results(), f"{address}#scores")

    def clear_and_stop(*target):
        clear(*target)
        raise KeyboardInterrupt

    clear = sql_results._clear
    monkeypatch.setattr(sql_results, "_clear", clear_and_stop)
    with pytest.raises(KeyboardInterrupt):
        write_table(results([1.0]), f"{address}#scores")
    monkeypatch.undo()
    assert read(address).equals(results())


def test_a_new_file_is_there_only_with_its_table(tmp_path):
    place = f"duckdb:{tmp_path}/more/new.db#scores"
    check_places(place)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match=r"new\.db cannot be written"):
        write_table(results(cells=pa.array([decimal.Decimal(10) ** 60] * 3, pa.decimal256(70, 1))), place)
    assert list((tmp_path / "more").iterdir()) == []
    write_table(results(), place)
    assert [path.name for path in (tmp_path / "more").iterdir()] == ["new.db"]
    assert read(f"duckdb:{tmp_path}/more/new.db").equals(results())


def test_results_do_not_end_in_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(results(), "duckdb::memory:#scores")
    assert [path.name for path in tmp_path.iterdir()] == [":memory:"]


def test_a_reader_never_sees_half_of_the_results(server):
    run(server, "drop schema public cascade", "create schema public")
    write_table(results(), f"{server}#scores")
    with dbapi.connect(server) as reader, reader.cursor() as cursor:
        cursor.execute("set transaction isolation level repeatable read")
        cursor.execute("select * from scores")
        assert len(cursor.fetchall()) == 3
        write_table(results([1.0]), f"{server}#scores")  # does not wait for readers
        cursor.execute("select * from scores")
        assert len(cursor.fetchall()) == 3
    assert read(server).num_rows == 1


def test_who_may_not_write_is_told_before_the_work(server):
    run(server, "drop schema public cascade", "create schema public", "grant usage on schema public to public")
    run(server, "drop role if exists bob", "create role bob login password 'hidden'")
    bob = server.replace("ann:secret", "bob:hidden")
    write_table(results(), f"{server}#scores")
    run(server, "grant select on scores to public")
    for name in ("scores", "new"):
        with pytest.raises(InputError, match=r"cannot be written: .*permission denied") as told:
            check_places(f"{bob}#{name}")
        assert "hidden" not in str(told.value)


def test_a_data_base_that_cannot_be_written(tmp_path):
    with pytest.raises(
        InputError, match=r"scores of postgresql://127\.0\.0\.1:9/shop cannot be written: .*refused"
    ) as x:
        check_places("postgresql://ann:secret@127.0.0.1:9/shop#scores")
    assert "secret" not in str(x.value)
    (tmp_path / "x.db").write_text("no data base")
    with pytest.raises(InputError, match=r"x\.db cannot be written"):
        check_places(f"duckdb:{tmp_path}/x.db#scores")
    with pytest.raises(InputError, match="cannot be written"):
        check_places(f"duckdb:{tmp_path}/x.db/below.db#scores")
    assert (tmp_path / "x.db").read_text() == "no data base"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("duckdb:x.db", r"duckdb:x\.db needs the name of a table; write it after a #, as in '\.\.\.#scores'"),
        ("duckdb:#scores", "names no file"),
        ("postgresql://ann:secret@h/x#", r"^postgresql://h/x needs the name of a table"),
        ("duckdb:x.db#select * from scores", "'select \\* from scores' is no name of a table"),
        ("duckdb:x.db#a.b.c", "no name of a table"),
        ('duckdb:x.db#a"b', "no name of a table"),
        ("duckdb:x.db#1a", "no name of a table"),
    ],
)
def test_a_place_without_a_table_is_refused(place, message):
    with pytest.raises(InputError, match=message) as told:
        output_format(place)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("module", "place"), [("duckdb", "duckdb:x.db#scores"), ("adbc_driver_postgresql", "postgres://h/x#scores")]
)
def test_what_is_not_installed_is_told(monkeypatch, tmp_path, module, place):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, f"{module}.dbapi", None)
    with pytest.raises(InputError, match=rf"needs {module}; install it with pip install 'nptad\[sql\]'"):
        check_places(place)


def test_other_places_are_no_tables():
    assert table_of("orders.db#scores") is None
    assert table_of("mysql://h/x#scores") is None
    assert table_of("-") is None
