"""Files at URLs, with a local S3 server and a local web server."""

from __future__ import annotations

import functools
import gzip
import logging
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import fsspec
import pyarrow as pa
import pytest

from nptad import InputError
from nptad.io import remote
from nptad.io.read import read_table
from nptad.io.sources import read_source
from nptad.io.write import write_table

pytest.importorskip("s3fs", reason="s3fs is not installed")
TABLE = pa.table({"a": [1, 2], "b": ["x", "y"]})


@pytest.fixture(scope="module")
def bucket():
    """An S3 server on loopback with an empty bucket, which is where s3:// leads to."""
    server = pytest.importorskip("moto.server", reason="moto is not installed").ThreadedMotoServer("127.0.0.1", 0)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "ann")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fsspec.filesystem("s3").mkdir("shop")
        yield "s3://shop"
        fsspec.filesystem("s3").clear_instance_cache()
    server.stop()


@pytest.fixture
def website(tmp_path):
    """A web server on loopback with the files of a folder."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.xlsx", "a.parquet", "a b%20[1].jsonl"])
def test_what_is_written_to_a_bucket_is_read_from_it(bucket, name):
    write_table(TABLE, f"{bucket}/{name}")
    assert read_source(f"{bucket}/{name}") == (TABLE, [])


def test_a_packed_text_is_packed_in_the_bucket(bucket):
    write_table(TABLE, f"{bucket}/packed/a.csv.gz")
    assert gzip.decompress(fsspec.filesystem("s3").cat_file("shop/packed/a.csv.gz")).startswith(b'"a","b"')


def test_a_folder_and_a_pattern_in_a_bucket(bucket):
    for name in ("in/1.csv", "in/2.parquet", "in/deeper/3.csv", "other/4.csv"):
        write_table(TABLE, f"{bucket}/{name}")
    table, keys = read_source(f"{bucket}/in/")
    assert keys == ["file"]
    assert table["file"].unique().to_pylist() == ["1.csv", "2.parquet"]
    assert read_source(f"{bucket}/*/*.csv").table["file"].unique().to_pylist() == ["in/1.csv", "other/4.csv"]
    with pytest.raises(InputError, match=r"s3://shop/none/ does not exist|no table in the folder"):
        read_source(f"{bucket}/none/")
    with pytest.raises(InputError, match=r"There is no file s3://shop/none\*\.csv"):
        read_source(f"{bucket}/none*.csv")


def test_an_upload_that_fails_leaves_the_earlier_object(bucket, monkeypatch):
    write_table(TABLE, f"{bucket}/kept.csv")
    with pytest.raises(InputError, match="Column 'n' holds list"):
        write_table(pa.table({"n": [[1]]}), f"{bucket}/kept.csv")
    monkeypatch.setattr("nptad.io.write.write_url", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_table(TABLE[:1], f"{bucket}/kept.csv")
    assert read_table(f"{bucket}/kept.csv").equals(TABLE)


def test_what_a_bucket_has_not(bucket):
    with pytest.raises(InputError, match=r"s3://shop/none\.csv does not exist; check the name"):
        read_table(f"{bucket}/none.csv")
    with pytest.raises(InputError, match=r"s3://none/a\.csv cannot be written: there is no bucket none"):
        remote.require_remote_room("s3://none/a.csv")
    remote.require_remote_room(f"{bucket}/new/folder/a.csv")


def test_a_limit_holds_for_remote_files(bucket, website, tmp_path):
    (tmp_path / "a.csv").write_bytes(b"a\n" + b"1\n" * 100_000)
    fsspec.filesystem("s3").put_file(str(tmp_path / "a.csv"), "shop/large.csv")
    for url in (f"{bucket}/large.csv", f"{website}/a.csv"):
        assert len(read_table(url)) == 100_000
        with pytest.raises(InputError, match="is larger than 0 MB"):
            read_table(url, max_bytes=1000)


def test_a_web_server(website, tmp_path):
    write_table(TABLE, tmp_path / "my table.csv")
    write_table(TABLE, tmp_path / "a.xlsx")
    assert read_source(f"{website}/my%20table.csv?key=secret").table.equals(TABLE)
    assert read_source(f"{website}/a.xlsx").table.equals(TABLE)
    with pytest.raises(InputError, match=r"127\.0\.0\.1:\d+/none\.csv does not exist") as raised:
        read_table(f"{website.replace('//', '//ann:secret@')}/none.csv?key=secret")
    assert "secret" not in str(raised.value)


def test_nothing_is_written_to_a_web_server(website):
    with pytest.raises(InputError, match="cannot be written to; name a file, or one at s3:// or gs://"):
        write_table(TABLE, f"{website}/a.csv")


def test_a_server_that_is_not_there():
    with pytest.raises(InputError, match=r"http://127\.0\.0\.1:9/a\.csv cannot be read \(.*\); check the address"):
        read_table("http://127.0.0.1:9/a.csv")


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [("s3://x/a.csv", "s3fs", "remote"), ("gs://x/a.csv", "gcsfs", "gs"), ("https://x/a.csv", "aiohttp", "remote")],
)
def test_what_is_not_installed_is_told(monkeypatch, url, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"needs {module}; install it with pip install 'nptad\[{extra}\]'"):
        read_table(url)
