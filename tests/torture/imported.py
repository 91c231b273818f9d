"""Everything that commands import, for the process from which they are forked; scores are cheap in it."""

import gc

import nptad.cli.app
import nptad.cli.terminal
import nptad.io.excel
import nptad.io.write
import nptad.pipeline
import nptad.report
import nptad.scale.bigfiles
from torture.cheap import CHEAP_SCORES

for module, name, value in CHEAP_SCORES:
    setattr(module, name, value)
gc.freeze()  # so that forked processes do not copy what they do not change

__all__ = ["nptad"]
