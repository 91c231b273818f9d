"""The notebooks in docs/tutorials run from top to bottom and still give what they show.

Each cell runs in one namespace, as in a kernel; the value of its last line is shown as it was stored.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


def run(source, names):
    """Run a cell; the value of its last line, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_there_is_a_notebook():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_what_it_shows(path, tmp_path, monkeypatch):
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / "docs" / "tutorials").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "docs" / "tutorials")
    monkeypatch.setenv("MPLBACKEND", "agg")
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    names, compared = {}, 0
    with pd.option_context("display.max_columns", 20):  # as in a kernel
        for cell in cells:
            value = run("".join(cell["source"]), names)
            shown = [output["data"] for output in cell["outputs"] if output["output_type"] == "execute_result"]
            assert bool(shown) == (value is not None)
            assert not any(output["output_type"] == "error" for output in cell["outputs"])
            for data in shown:
                if "text/plain" in data:
                    assert repr(value) == "".join(data["text/plain"])
                else:
                    assert value._repr_html_() == "".join(data["text/html"])
                compared += 1
    assert compared >= 3
