"""The tutorials in docs/tutorials do what they say: every command, every file and every output in them is tried.

A block ``console`` has commands of nptad after ``$`` and what they print; ``pycon`` is a doctest; ``python`` whose
first line is a comment with a name is a file.
"""

from __future__ import annotations

import doctest
import re
import shlex
import sys
from pathlib import Path

import pytest

import nptad.cli.app

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```(console|pycon|python)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def commands_of(block):
    """Each command of a console block and what it prints."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def run(command, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "110")
        nptad.cli.app.main()
    return capsys.readouterr()


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_does_what_it_says(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    for table in (ROOT / "tests" / "gallery").glob("*.csv.gz"):
        (tmp_path / table.name).symlink_to(table)
    names = {}
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            name = re.match(r"# (\w+\.py)$", block.partition("\n")[0])
            if name:
                (tmp_path / name[1]).write_text(block, encoding="utf-8")
        elif kind == "pycon":
            test = doctest.DocTestParser().get_doctest(block, names, page.name, str(page), 0)
            failures = []
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
            runner.run(test, out=failures.append, clear_globs=False)
            assert failures == []
            names = test.globs
        else:
            for command, printed in commands_of(block):
                shown = run(command, capsys, monkeypatch)
                assert "".join(line.rstrip() + "\n" for line in shown.out.splitlines()) == printed, command


def test_there_are_tutorials():
    assert len(TUTORIALS) >= 1
