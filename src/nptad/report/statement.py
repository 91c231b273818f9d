"""The result in words, and what a reader should know about it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from nptad.scoring.calibrate import Detection
from nptad.scoring.display import headline
from nptad.wording import percent, plural, rounded

if TYPE_CHECKING:
    from nptad.models.fitted import FittedModel


_NAMED_GROUPS = 3
"""Groups of flagged rows that the first paragraph names."""

_LARGE = 0.1
"""Share of the flagged rows from which on a group is named there."""

_MANY = 0.1
"""Share of flagged rows from which on the advice is to look at groups before rows."""


def state(
    detection: Detection, n_listed: int, n_known: int, model: FittedModel, groups: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """``result`` of a summary; ``n_known`` of the listed rows are part of the training table.

    ``statement`` says whether anything is wrong, ``meaning`` what it is, how sure that is, and what to do next.
    """
    n_flagged = int(detection.anomaly.sum())
    large = [group for group in groups if group["n"] >= _LARGE * n_flagged]
    return {
        "statement": headline(detection),
        "meaning": " ".join(filter(None, [_what(large), _how_sure(detection, n_listed), _next(detection, large)])),
        "drift": list(detection.drift),
        "notes": [*detection.notes, *_notes(detection, n_listed, n_known, model)],
        "rule": detection.rule,
        "rate": detection.rate,
        "n_flagged": n_flagged,
        "n_listed": n_listed,
        "p_threshold": detection.threshold,
        "score_threshold": float(detection.score[detection.anomaly].min()) if n_flagged else None,
        "smallest_p": 1 / (model.scorer.n_calibration + 1),
    }


def _what(groups: Sequence[dict[str, Any]]) -> str:
    """What the largest groups of flagged rows have in common."""
    named = [
        f"{group['column']} is {group['how']}{' than in similar rows' * group['how'].endswith('er')} in "
        f"{plural(group['n'], 'flagged row')}"
        for group in groups[:_NAMED_GROUPS]
    ]
    return f"{'; '.join(named)}." if named else ""


def _how_sure(detection: Detection, n_listed: int) -> str:
    rate = percent(detection.rate)
    if not len(detection.score):
        return "The table has no rows."
    if not detection.anomaly.any():
        return f"No row is flagged. The {n_listed:,} rows with the highest scores are listed for orientation only."
    if detection.rule == "share":
        return "The rows with the highest scores are flagged, whether or not anything is wrong with them."
    if detection.rule == "fdr" and (detection.training_row >= 0).all():
        return f"By estimate, {rate} of the flagged rows are normal; in tables with long tails it can be more."
    if detection.rule == "fdr":
        return f"On average, at most {rate} of the flagged rows are normal."
    return f"About {rate} of the normal rows are flagged as well."


def _next(detection: Detection, groups: Sequence[dict[str, Any]]) -> str:
    n_flagged = int(detection.anomaly.sum())
    if detection.drift:
        return "Next, look at the columns that differ from training, named below: flags may come from them."
    if not len(detection.score):
        return ""
    if not n_flagged:
        return "Nothing needs to be done; if you expect errors, look at the first of these rows."
    if groups and n_flagged > _MANY * len(detection.anomaly):
        return "Next, look at one row of each group: so many are hardly single errors."
    return "Next, compare the cells that are named with their source, first row first: unusual is not always wrong."


def _notes(detection: Detection, n_listed: int, n_known: int, model: FittedModel) -> Iterator[str]:
    n_calibration, network = model.scorer.n_calibration, model.network
    is_single = network is not None and network.ensemble.n_members == 1
    n_rows, n_flagged, is_fdr = len(detection.score), int(detection.anomaly.sum()), detection.rule == "fdr"
    if network is not None and network.ended_early is not None:
        yield network.ended_early
    if n_listed < n_flagged:
        yield f"Of the {n_flagged:,} flagged rows, the {n_listed:,} most anomalous are listed and explained."
    if n_known and not is_single:
        which = "The listed rows are" if n_known == n_listed else f"{n_known:,} of the {n_listed:,} listed rows are"
        scored = f"{which} part of the training table. Their scores are out-of-fold: each is compared with the others."
        fixed = detection.rule == "false_alarm_rate"
        yield f"{scored} A fixed share of such rows is flagged, even if nothing is wrong." if fixed else scored
        yield from _core_notes(model)
    fewest = math.ceil(round(n_rows / (n_calibration + 1) / detection.rate, 6))
    if network is not None and is_fdr and not n_flagged and fewest > 1:
        yield (
            f"The p-values are based on {n_calibration:,} training rows, so none can be below 1 in "
            f"{n_calibration + 1:,}. At this rate, fewer than {fewest:,} anomalies among {n_rows:,} rows cannot be "
            "found."
        )
    if is_single:
        yield "The model has a single member, which was trained on the rows it compares with: p-values are too small."
    if n_flagged:
        above = int((~detection.anomaly & (detection.score > detection.score[detection.anomaly].min())).sum())
        if above:
            yield (
                f"{plural(above, 'row')} above the lowest flagged score {'is' if above == 1 else 'are'} not flagged: "
                "p-values are computed for each member, and scores are means over members."
            )


def core(model: FittedModel) -> dict[str, Any] | None:
    """``training.core`` of a summary: None unless the training table was taken to contain anomalies."""
    if model.core is None:
        return None
    reasons = model.core.reasons()
    return {
        "n_rows": len(model.compared_rows[0]),
        "n_kept_out": sum(reasons.values()),
        "reasons": reasons,
        "n_top": model.core.n_top,
        "agreement": rounded(model.core.agreement),
    }


def kept_out(model: FittedModel, training_row: int) -> str | None:
    """Why a training row was kept out of the core; None for a row of the core and for other rows."""
    return None if model.core is None or training_row < 0 else model.core.reason_of(training_row)


def _core_notes(model: FittedModel) -> Iterator[str]:
    """Which rows were kept out of the core and why, and how much the ranking depends on that."""
    known = core(model)
    if known is None:
        return
    reasons = sorted(known["reasons"].items(), key=lambda reason: -reason[1])
    why = "; ".join(f"{count:,} {name}" for name, count in reasons)
    yield (
        f"Rows are compared with the core, the {plural(known['n_rows'], 'row')} that look most ordinary at first "
        f"sight. Kept out of it: {why}."
    )
    yield (
        f"Of the {plural(known['n_top'], 'row')} with the highest scores, at least {percent(known['agreement'])} are "
        "there with a small core as with a large one."
    )
