"""Values and tensors as bytes, and back."""

from __future__ import annotations

import pytest
import torch

from nptad.io.tensors import from_bytes, tensors_from_bytes, to_bytes


def test_values_come_back_from_bytes():
    value = {"order": torch.arange(6).reshape(2, 3).t(), "history": [{"loss": 0.1, "step": 1}], "nothing": None}
    found = from_bytes(to_bytes(value))
    assert torch.equal(found.pop("order"), value.pop("order"))
    assert found == value


def test_what_would_need_a_pickle_is_refused():
    with pytest.raises(AttributeError):
        to_bytes({"error": ValueError()})


@pytest.mark.parametrize("data", [b"", b"nonsense", b"\xff" * 100, (2).to_bytes(8, "little") + b"{}x"])
def test_what_are_no_tensors_is_refused(data):
    with pytest.raises(ValueError, match="no tensors"):
        tensors_from_bytes(data)


def test_a_header_that_promises_more_than_there_is_is_refused():
    header = b'{"a": {"dtype": "F32", "shape": [1000000000, 1000], "data_offsets": [0, 4000000000000]}}'
    with pytest.raises(ValueError, match="no tensors"):
        tensors_from_bytes(len(header).to_bytes(8, "little") + header)
