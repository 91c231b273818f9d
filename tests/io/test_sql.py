"""Queries to data bases: their rows are a table, nothing is changed, and errors keep passwords to themselves."""

from __future__ import annotations

import datetime
import sys

import duckdb
import postgresql_server
import pytest
from adbc_driver_postgresql import dbapi

from nptad import InputError
from nptad.io.places import name_of, query_of
from nptad.io.sources import read_source
from nptad.tables.frames import read_columns

DAY = datetime.date(2024, 1, 2)
ROWS = """
    create table orders(id int, name text, price numeric(10,2), day date, open boolean, code uuid, span interval);
    insert into orders values
        (1, 'Ann', 12.50, '2024-01-02', true, '3cf9d9c4-a184-4845-9b45-375aed918d53', '1 day'),
        (2, null, null, null, null, null, null);
"""


def read(place):
    return read_source(place).table


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("sql") / "shop.db"
    with duckdb.connect(path) as connection:
        connection.execute(ROWS)
    return f"duckdb:{path}"


@pytest.fixture(scope="module")
def server():
    programs = postgresql_server.programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed here (apt-get install postgresql)")
    with postgresql_server.running(programs) as address:
        with dbapi.connect(address) as connection, connection.cursor() as cursor:
            for statement in ROWS.strip().split(";\n")[:2]:
                cursor.execute(statement)
            connection.commit()
        yield address


@pytest.fixture(params=["file", "server"])
def address(request):
    return request.getfixturevalue(request.param)


def test_the_rows_of_a_query_are_a_table(address):
    table = read(f"{address}#select * from orders order by id")
    first, second = table.to_pylist()
    assert first["code"] == "3cf9d9c4-a184-4845-9b45-375aed918d53"
    assert [first[name] for name in ("id", "name", "price", "day", "open")] == [1, "Ann", 12.5, DAY, True]
    assert set(second.values()) == {2, None}
    assert list(read_columns(table).content.values()) == ["number", "text", "number", "time", "boolean", "text", "text"]
    assert read(f"{address}#select name from orders where price > 100").num_rows == 0


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("drop table orders", "has failed"),
        ("insert into orders(id) values (3)", "has failed"),
        ("delete from orders returning id", "has failed"),
        ("selec 1", "syntax error"),
        ("select * from nothing", "nothing"),
        ("select 1 as a, 2 as a", "2 columns called 'a'"),
        (" ", "needs a query; write it after a #"),
    ],
)
def test_a_query_changes_nothing_and_its_errors_are_one_sentence(address, statement, message):
    with pytest.raises(InputError, match=message) as raised:
        read(f"{address}#{statement}")
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)
    assert name_of(address) in str(raised.value)
    assert read(f"{address}#select count(*) as n from orders")["n"].to_pylist() == [2]


def test_a_query_to_duckdb_stays_in_its_file(file, tmp_path):
    (tmp_path / "x.csv").write_text("a\n1\n")
    for statement in (
        f"select * from '{tmp_path}/x.csv'",
        f"copy orders to '{tmp_path}/y.csv'",
        f"attach '{tmp_path}/other.db'",
        "install httpfs",
    ):
        with pytest.raises(InputError, match="has failed"):
            read(f"{file}#{statement}")
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


def test_a_data_base_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"none\.db does not exist"):
        read(f"duckdb:{tmp_path}/none.db#select 1")
    (tmp_path / "x.db").write_text("no data base")
    with pytest.raises(InputError, match=r"x\.db has failed"):
        read(f"duckdb:{tmp_path}/x.db#select 1")
    with pytest.raises(InputError, match=r"postgresql://127\.0\.0\.1:9/shop has failed: .*refused") as raised:
        read("postgresql://ann:secret@127.0.0.1:9/shop#select 1")
    assert "secret" not in str(raised.value)


def test_a_query_has_no_sheets(file):
    with pytest.raises(InputError, match=r"shop\.db has no sheets"):
        read_source(f"{file}#select 1", sheet="a")


@pytest.mark.parametrize(
    ("module", "place"), [("duckdb", "duckdb:x.db#select 1"), ("adbc_driver_postgresql", "postgres://h/x#select 1")]
)
def test_what_is_not_installed_is_told(monkeypatch, module, place):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, f"{module}.dbapi", None)
    with pytest.raises(InputError, match=rf"needs {module}; install it with pip install 'nptad\[sql\]'"):
        read(place)


def test_other_places_are_no_queries():
    assert query_of("orders.db#select 1") is None
    assert query_of("mysql://h/x#select 1") is None
    with pytest.raises(InputError, match="cannot be understood"):
        query_of("postgresql://[x/db#")
