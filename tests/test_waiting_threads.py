"""OpenMP's threads do not spin while they wait, in the command and in the processes that it starts.

OpenMP reads the environment when it is loaded, and says what it has read if it is asked to.
"""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

SAID = re.compile(r"GOMP_SPINCOUNT = '(\d+)'")
COMMANDS = {
    "default score": "detect table.csv",
    "network": "fit table.csv --model model --network --time-limit 60 --quiet",
    "processes that train together": "fit table.csv --model model --network --nproc 2 --quiet",
}


def spin_counts(arguments, folder, **variables):
    """How long each OpenMP library that a process and its children load lets threads spin, in turns."""
    hidden = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"OMP_DISPLAY_ENV": "verbose", **variables}
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    return [int(count) for count in SAID.findall(done.stderr)]


@pytest.fixture
def folder(tmp_path):
    x = np.random.default_rng(0).normal(size=(30, 2))
    np.savetxt(tmp_path / "table.csv", x, delimiter=",", header="a,b", comments="")
    if not spin_counts(["-c", "import torch"], tmp_path):
        pytest.skip("torch has no GNU OpenMP here")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_threads_of_the_command_do_not_spin(command, folder):
    counts = spin_counts(["-m", "nptad.cli", *command.split()], folder)
    assert counts
    assert set(counts) == {0}


def test_what_the_user_says_counts(folder):
    counts = spin_counts(["-m", "nptad.cli", "detect", "table.csv"], folder, OMP_WAIT_POLICY="ACTIVE")
    assert counts
    assert min(counts) > 0
