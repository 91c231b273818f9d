"""Progress where nobody watches a bar: lines, the first soon, then rarer."""

from __future__ import annotations

from contextlib import suppress

import pytest

from nptad import progress
from nptad.progress import announce, progress_bar


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets."""

    class Clock:
        now = 0.0

    monkeypatch.setattr(progress.time, "monotonic", lambda: Clock.now)
    return Clock


def test_long_work_is_told_in_lines_that_become_rarer(clock, capsys):
    times = []
    with progress_bar("Fitting", 1000, True) as advance:
        for _ in range(999):
            clock.now += 1.0
            advance(1)
            if err := capsys.readouterr().err:
                times.append((clock.now, err))
    assert [when for when, _ in times] == [5, 10, 20, 40, 80, 160, 320, 640]
    assert times[0][1] == "nptad: Fitting: 0.5%, about 17 min left\n"
    assert capsys.readouterr().err == "nptad: Fitting: done in 17 min\n"


def test_short_work_and_invisible_work_print_nothing(clock, capsys):
    for visible, seconds in ((True, 0.1), (False, 10.0)):
        with progress_bar("Scoring", 10, visible) as advance:
            for _ in range(10):
                clock.now += seconds
                advance(1, "note")
    assert capsys.readouterr() == ("", "")


def test_a_failure_is_not_told_as_done(clock, capsys):
    with suppress(ValueError), progress_bar("Scoring", 10, True) as advance:
        clock.now += 6
        advance(1)
        raise ValueError
    assert "done" not in capsys.readouterr().err


def test_only_long_work_is_announced(capsys):
    announce("The fit", 59, True)
    announce("The fit", 600, False)
    assert capsys.readouterr().err == ""
    announce("The fit", 600, True)
    assert capsys.readouterr().err == "nptad: The fit takes about 10 min on one core\n"
