"""A damaged file is the same table, or the same error of ours, whether it is read whole or in parts."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mutated_files import FILES, INSERTED, mutated, outcome, read_in_parts, written
from nptad.io import text
from nptad.io.read import read_table
from order_tables import orders

PLACES = st.floats(0, 1)
MUTATIONS = st.one_of(
    st.tuples(st.just("flip"), PLACES, st.integers(0, 7)),
    st.tuples(st.just("insert"), PLACES, st.sampled_from(INSERTED)),
    st.tuples(st.just("delete"), PLACES, st.integers(1, 4)),
    st.tuples(st.just("cut"), PLACES, st.none()),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("mutations")


@settings(max_examples=600)
@given(st.sampled_from(FILES), st.lists(MUTATIONS, max_size=4), st.sampled_from([64, text.BLOCK_BYTES]))
@example((".csv", b"a,b\n1,x\n\xef\xbb\xbf2,y\n"), [], 64)
@example((".csv", b"a,b\n1,\n" + b"2,x\n" * 20 + b"007,y\n"), [], 64)
@example((".csv", f"{'é' * 99}\n1\n".encode()), [], 63)
@example((".csv.gz", gzip.compress(written(orders(20, 1), "parquet"), mtime=0)), [], text.BLOCK_BYTES)
@example((".parquet", gzip.compress(written(orders(20, 1), "parquet"), mtime=0)), [], text.BLOCK_BYTES)
def test_whole_and_in_parts(folder, file, mutations, block_bytes):
    suffix, data = file
    path = folder / f"x{suffix}"
    path.write_bytes(mutated(data, mutations))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "BLOCK_BYTES", block_bytes)
        whole = outcome(read_table, path)
        if suffix != ".jsonl":
            assert outcome(read_in_parts, path) == whole
