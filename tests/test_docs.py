"""What README and docs/ tell people to type works as written, and what they say of files and versions is true."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import nptad
import nptad.cli.app

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
NOT_HERE = ("nptad serve", "nptad api", "nptad demo", "nptad bench", "nptad data")  # tested on their own


def documented_commands():
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    texts = [re.sub(r"## In production.*?\n(?=## )", "", text, flags=re.DOTALL) for text in texts]  # its own test
    lines = [line.strip() for text in texts for line in text.splitlines()]
    commands = [line for line in lines if line.startswith("nptad ") and not line.startswith(NOT_HERE)]
    return sorted(dict.fromkeys(commands), key=lambda command: not command.startswith("nptad fit"))  # models first


def sample(n_rows, seed):
    random = np.random.default_rng(seed)
    size = random.normal(size=n_rows)
    colour, weight = np.where(size > 0, "red", "blue"), 3 * size + random.normal(size=n_rows)
    return pd.DataFrame({"id": np.arange(n_rows), "size": size, "weight": weight, "colour": colour})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    sample(120, 0).to_csv(folder / "orders.csv", index=False)
    sample(120, 1).to_parquet(folder / "last_year.parquet")
    sample(30, 2).to_csv(folder / "today.csv", index=False)
    sample(30, 2).to_csv(folder / "new.csv", index=False)
    sample(120, 0).drop(columns="id").to_csv(folder / "table.csv", index=False)
    (folder / "in").mkdir()
    sample(30, 3).to_parquet(folder / "in" / "monday.parquet")
    return folder


def test_there_are_commands_to_test():
    assert len(documented_commands()) >= 5


@pytest.mark.parametrize("command", documented_commands())
def test_a_documented_command_runs(command, folder, monkeypatch, capsys):
    arguments = shlex.split(command)[1:]
    quick = ["--time-limit", "0.2", "--quiet"] if arguments[0] in ("detect", "fit") else ["--quiet"]
    if "new.csv" in arguments:
        quick += ["--ignore", "id"]
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["nptad", *arguments, *quick])
    nptad.cli.app.main()
    assert capsys.readouterr().err == ""


def test_the_python_of_the_quick_start_runs(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "quick-start.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {"normal": sample(400, 0).drop(columns="id"), "new": sample(20, 1).drop(columns="id")}
    exec(code.replace("NPTAD(random_state=0)", "NPTAD(2, n_steps=5, random_state=0)"), names)
    assert len(names["found"].score) == 20
    assert (tmp_path / "model" / "config.json").exists()


def test_the_false_discovery_rate_of_finished_parts_can_be_had(tmp_path, monkeypatch):
    text = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    code = next(code for code in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL) if "hochberg" in code)
    (tmp_path / "scores").mkdir()
    found = pd.DataFrame({"file": "a", "row": range(3), "p_value": [0.5, 0.001, 0.9], "anomaly": False})
    found.to_parquet(tmp_path / "scores" / "part-00000-00000.parquet")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(code, names)
    assert names["found"]["row"].to_pylist() == [1]


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_reference_has_every_public_name():
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    listed = re.findall(r"^::: nptad\.(\w+)$", text, flags=re.MULTILINE)
    assert sorted(listed) == sorted(set(nptad.__all__) - {"__version__"})


def test_the_site_has_every_page():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if str(page.relative_to(ROOT)) not in text] == []


@pytest.fixture
def make_docs(tmp_path):
    """Runs ``make docs`` on copies."""
    pytest.importorskip("mkdocs", reason="the site needs the extra docs")
    names = ["mkdocs.yml", "Makefile", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "CITATION.cff"]
    folders = ["docs", "src", "results", "benchmarks"]
    for name in names + folders:
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    (tmp_path / ".venv" / "docs").touch()
    command = ["make", "docs", "-o", ".venv/docs"]
    return lambda: subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)


def test_the_site_is_built_without_a_warning(make_docs, tmp_path):
    made = make_docs()
    assert made.returncode == 0, made.stderr
    page = (tmp_path / "build" / "docs" / "docs" / "reference.html").read_text(encoding="utf-8")
    assert "fit_detect" in page
    assert re.findall(r":[a-z]+:<code", page) == []  # roles of Sphinx


def test_a_broken_link_is_an_error(make_docs, tmp_path):
    (tmp_path / "README.md").unlink()
    (tmp_path / "README.md").write_text("# Start\n\n[A page](docs/nowhere.md)\n", encoding="utf-8")
    made = make_docs()
    assert made.returncode != 0
    assert "docs/nowhere.md" in made.stdout + made.stderr


def test_the_walk_names_files_that_exist_and_each_once():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walk = text.partition("## One row from CSV to report")[2].partition("## Glossary")[0]
    named = re.findall(r"^\d+\. `(\S+)`", walk, flags=re.MULTILINE)
    assert len(set(named)) == len(named) > 30
    assert [name for name in named if not (ROOT / "src" / "nptad" / name).exists()] == []


def test_the_newest_version_in_the_changelog_is_ours():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert newest is not None
    assert newest[1] == nptad.__version__


def test_the_command_prints_the_version_that_is_installed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["nptad", "--version"])
    nptad.cli.app.main()
    assert capsys.readouterr().out.strip() == version("nptad")
