"""A mistyped file name is refused before anything slow is imported."""

import subprocess
import sys


def test_reading_imports_nothing_slow():
    modules = "nptad.io.read, nptad.io.write, nptad.tables.schema, nptad.tables.encode"
    script = f"import {modules}, sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert {"torch", "sklearn", "pandas", "scipy"} & set(ran.stdout.split()) == set()
