"""`nptad monitor`: scored files over time."""

from __future__ import annotations

from pathlib import Path

from nptad.cli.arguments import check_places
from nptad.cli.parameters import Quiet, SavedModel, TableFile


def monitor(
    model: SavedModel,
    scores: TableFile,
    /,
    *,
    report: Path | None = None,
    time: str | None = None,
    false_alarm_rate: float | None = None,
    quiet: Quiet = False,
    json: bool = False,
) -> None:
    """Show how flags, scores and columns change from file to file or from day to day.

    Parameters
    ----------
    scores : str
        Files that `nptad score` wrote with this model: a file, a folder or a quoted pattern such as
        `'scores/*.parquet'`, in the order of their names.
    report : Path
        Write a page to this HTML file.
    time : str
        Put rows together by the day in this column, which was carried along (`nptad score --ignore when`). By default
        by file.
    false_alarm_rate : float
        The rate that the rows were flagged at, if it was not the default.
    json : bool
        Print as JSON instead of a table.
    """
    from nptad.models.folder import read_schema
    from nptad.scale.bigfiles import find_files

    check_places(report)
    files = find_files(scores)
    read_schema(model)  # a model that cannot be used shows before torch is imported

    from nptad.cli.terminal import print_json, print_periods
    from nptad.detector import load
    from nptad.report.monitoring import write_monitoring
    from nptad.scale.monitor import monitor_files

    detector = load(model, "cpu")
    found = monitor_files(detector, files, time=time, false_alarm_rate=false_alarm_rate)
    facts = {**found.to_dict(), "upkeep": detector.upkeep_.text()}
    if report is not None:
        write_monitoring(facts, model.name, report)
    if json:
        print_json(facts)
    elif not quiet:
        print_periods(facts)
