"""The command line."""

from nptad.cli.app import main

__all__ = ["main"]
