"""``python -m nptad.cli`` is ``nptad``."""

from nptad.cli.app import main

main()
