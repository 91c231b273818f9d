"""The tutorials in docs/tutorials do what they say: every command, every file and every output in them is tried.

A block ``console`` has commands of nptad after ``$`` and what they print; ``pycon`` is a doctest; ``python`` whose
first line is a comment with a name is a file. ``nptad api`` is a process of its own, at another port.
"""

from __future__ import annotations

import doctest
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import nptad.cli.app

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PORT = "8766"
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
BLOCK = re.compile(r"^```(console|pycon|python)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def commands_of(block):
    """Each command of a console block and what it prints."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def run(command, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        nptad.cli.app.main()
    return capsys.readouterr()


@pytest.fixture
def start_service():
    """A function that starts ``nptad api`` and returns its port."""
    processes = []

    def start(arguments):
        command = [sys.executable, "-m", "nptad.cli", *arguments, "--port", "0"]
        processes.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        return next(json.loads(line)["port"] for line in processes[-1].stderr if '"started"' in line)

    yield start
    for process in processes:
        process.terminate()
        process.communicate(timeout=60)
        assert process.returncode == 0


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_does_what_it_says(page, tmp_path, monkeypatch, capsys, start_service):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    for table in (ROOT / "tests" / "gallery").glob("*.csv.gz"):
        (tmp_path / table.name).symlink_to(table)
    names, port = {}, PORT
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "python":
            name = re.match(r"# (\w+\.py)$", block.partition("\n")[0])
            if name:
                (tmp_path / name[1]).write_text(block, encoding="utf-8")
        elif kind == "pycon":
            test = doctest.DocTestParser().get_doctest(block.replace(PORT, port), names, page.name, str(page), 0)
            failures = []
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
            runner.run(test, out=failures.append, clear_globs=False)
            assert failures == []
            names = test.globs
        else:
            for command, printed in commands_of(block):
                if command.startswith("nptad api "):
                    port = str(start_service(shlex.split(command)[1:]))
                    continue
                shown = run(command, capsys, monkeypatch)
                lines = "".join(line.rstrip() + "\n" for line in shown.out.splitlines())
                assert TIME.sub("(time)", lines) == TIME.sub("(time)", printed), command


def test_there_are_tutorials():
    assert {page.stem for page in TUTORIALS} == {"file-to-report", "pipeline-to-service", "add-a-method", "retrieval"}
