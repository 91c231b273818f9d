"""The command line: parses, calls, prints."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from nptad.errors import NPTADError

app = App(name="nptad", help="Find the anomalous rows of a table and say why.")


@app.command
def demo(*, seed: Annotated[int, Parameter(validator=Number(gte=0))] = 0) -> None:
    """Find ten unusual wines among normal ones, in under a minute.

    Parameters
    ----------
    seed : int
        Seed of the split and the model.
    """
    from nptad.demo import run_demo

    run_demo(seed)


def main() -> None:
    """Run the command line; an expected error is one line on standard error and exit code 1."""
    try:
        app()
    except NPTADError as error:
        print(f"nptad: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
