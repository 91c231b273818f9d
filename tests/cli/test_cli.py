"""The command line and the demo."""

from __future__ import annotations

import functools
import re
import subprocess
import sys

import pytest

import nptad.cli.app
import nptad.cli.demo
from nptad import NPTAD, InputError


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "nptad.cli", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def tiny_demo(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    tiny = functools.partial(NPTAD, n_members=2, n_steps=5, embedding_dim=8)
    monkeypatch.setattr(nptad.cli.demo, "NPTAD", tiny)


def demo_output(capsys, seed):
    nptad.cli.demo.run_demo(seed)
    return capsys.readouterr()


def test_help_names_the_demo():
    ran = run("--help")
    assert ran.returncode == 0
    assert "demo" in ran.stdout
    assert ran.stderr == ""


def test_demo_help_explains_the_seed():
    ran = run("demo", "--help")
    assert ran.returncode == 0
    assert "--seed" in ran.stdout
    assert "The same seed gives the same result" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [("dmeo", "dmeo"), ("demo --seed x", "--seed"), ("demo --seed -1", "--seed"), ("demo --sed 1", "--sed")],
)
def test_bad_arguments_are_named_on_standard_error(capsys, arguments, named):
    with pytest.raises(SystemExit) as stopped:
        nptad.cli.app.app(arguments.split())
    assert stopped.value.code != 0
    out, err = capsys.readouterr()
    assert out == ""
    assert named in err


def test_an_expected_error_is_one_line_and_exit_code_1(monkeypatch, capsys):
    def fail(seed):
        raise InputError("The wine is corked.")

    monkeypatch.setattr(nptad.cli.demo, "run_demo", fail)
    monkeypatch.setattr(sys, "argv", ["nptad", "demo"])
    with pytest.raises(SystemExit) as stopped:
        nptad.cli.app.main()
    assert stopped.value.code == 1
    assert capsys.readouterr() == ("", "nptad: The wine is corked.\n")


def test_demo_prints_f1_auroc_and_ten_rows_with_reasons(tiny_demo, capsys):
    out, err = demo_output(capsys, 0)
    f1, auroc = re.search(r"F1 ([\d.]+)%, AUROC ([\d.]+)%", out).groups()
    assert 0 <= float(f1) <= 100
    assert 0 <= float(auroc) <= 100
    rows = [line for line in out.splitlines() if re.match(r"│ +\d+ │", line)]
    assert len(rows) == 10
    assert all(re.search(r"(expected|has) \d", line) for line in rows)
    assert all(1 <= len(re.findall(r" is ", line)) <= 3 for line in rows)
    scores = [float(line.split("│")[2]) for line in rows]
    assert scores == sorted(scores, reverse=True)
    assert err == ""  # short work, and no terminal


def test_demo_split_is_half_of_the_normal_wines_against_the_rest_and_ten_anomalies(tiny_demo, capsys):
    out, _ = demo_output(capsys, 0)
    assert "Learning from 59 wines" in out
    assert "70 new wines, 10 of them of a third cultivar" in out


def test_demo_repeats_for_a_seed(tiny_demo, capsys):
    outputs = [re.sub(r"\((\d+ s|under a second)\)", "", demo_output(capsys, seed).out) for seed in (3, 3, 4)]
    assert outputs[0] == outputs[1] != outputs[2]


def test_demo_on_a_narrow_terminal_keeps_all_reasons(tiny_demo, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out, _ = demo_output(capsys, 0)
    assert "…" not in out


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["detect", "nosuch.csv"], ["score", "nosuch", "nosuch.csv"], ["explain", "nosuch", "x.csv"]],
)
def test_a_mistyped_name_is_told_before_the_heavy_imports(arguments):
    program = (
        "import sys\nfrom nptad.cli import main\n"
        f"sys.argv = ['nptad', *{arguments!r}]\n"
        "try:\n    main()\nfinally:\n"
        "    heavy = {'torch', 'sklearn', 'pandas', 'scipy'} & set(sys.modules)\n"
        "    print(sorted(heavy), file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert ran.stderr.splitlines()[-1] == "[]", ran.stderr
