"""A model can be loaded while others save and after they were killed: never a mixture, never nothing."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from writers import contents, kill_a_saver, number_of, start_saver

from nptad import InputError
from nptad.models import folder
from nptad.models.folder import write_model


def test_a_model_that_is_loaded_during_saves_is_never_a_mixture(tmp_path):
    with start_saver(tmp_path / "model") as saver:
        found = {number_of(tmp_path / "model") for _ in range(300)}
        while len(found) < 20:  # on a busy machine the saver may have had few turns
            found.add(number_of(tmp_path / "model"))
        saver.kill()


def test_a_model_that_is_replaced_between_its_files_is_read_again(tmp_path, monkeypatch):
    write_model(tmp_path / "model", *contents(1))
    read, numbers = folder.read_regular, iter((2, 3))

    def replaced_before(path, advice):
        if path.suffix == ".parquet" and (number := next(numbers, None)):
            write_model(tmp_path / "model", *contents(number))
        return read(path, advice)

    monkeypatch.setattr(folder, "read_regular", replaced_before)
    assert number_of(tmp_path / "model") == 3


def test_after_kills_there_is_a_model_and_the_next_save_clears_up(tmp_path):
    random = np.random.default_rng(0)
    for _ in range(5):
        kill_a_saver(tmp_path / "model", random)


def test_two_savers_at_once_both_succeed(tmp_path):
    with start_saver(tmp_path / "model") as one, start_saver(tmp_path / "model") as other:
        found = {number_of(tmp_path / "model") for _ in range(100)}
        assert (one.poll(), other.poll()) == (None, None)
        for saver in (one, other):
            saver.kill()
    assert found


def test_a_copy_of_a_model_and_one_that_cannot_be_written_can_be_read(tmp_path):
    write_model(tmp_path / "model", *contents(5))
    shutil.copytree(tmp_path / "model", tmp_path / "copy")
    for path in (tmp_path / "copy").iterdir():
        path.chmod(0o400)
    (tmp_path / "copy").chmod(0o500)
    assert number_of(tmp_path / "copy") == 5


def test_a_model_is_not_saved_where_links_lead_in_a_circle(tmp_path):
    (tmp_path / "model").symlink_to(tmp_path / "model")
    with pytest.raises(InputError, match="model cannot be written: Too many levels of symbolic links"):
        write_model(tmp_path / "model", *contents(0))
    assert (tmp_path / "model").is_symlink()
