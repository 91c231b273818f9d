"""The example that the page offers: parcels, a few of them booked wrongly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from nptad.web.choices import Choices, default_choices

LABEL = ("booking", "wrong")  # column and value that mark the anomalies

_ROWS, _ERRORS = 96, 6

_SERVICES = ("economy", "standard", "express")
_ZONES = ("city", "country", "abroad")


def example_table(seed: int = 0) -> pa.Table:
    """Parcels with sizes, a tariff and a delivery time: numbers, categories, truth values, gaps and six errors.

    Weight follows from the size, price from weight, service and zone, days from service and zone.

    >>> table = example_table()
    >>> table.num_rows, table["booking"].to_pylist().count("wrong"), table["height_cm"].null_count > 0
    (96, 6, True)
    """
    random = np.random.default_rng(seed)
    length, width, height = (random.uniform(low, high, _ROWS) for low, high in ((20, 80), (15, 50), (5, 40)))
    weight = length * width * height / 5000 * random.lognormal(0, 0.08, _ROWS) + 0.2
    service, zone = random.choice(3, _ROWS, p=(0.3, 0.5, 0.2)), random.choice(3, _ROWS, p=(0.5, 0.3, 0.2))
    price = (3.5 + 0.6 * weight) * np.array([0.8, 1.0, 1.9])[service] * np.array([1.0, 1.2, 2.2])[zone]
    days = np.array([4, 2, 1])[service] + np.array([0, 1, 4])[zone] + random.integers(0, 2, _ROWS)
    signature = (service == 2) | (zone == 2)
    price *= random.lognormal(0, 0.02, _ROWS)

    wrong = random.choice(_ROWS, _ERRORS, replace=False)
    light, *_, heavy, heaviest = wrong[np.argsort(weight[wrong])]
    weight[heaviest] *= 10  # slips of the decimal point
    price[heavy] *= 10
    length[light] *= 10  # millimetres
    others = np.setdiff1d(wrong, (light, heavy, heaviest))
    height[others[0]] = 180.0
    days[others[1]] = 21
    signature[others[2]] = ~signature[others[2]]

    gaps = random.random((2, _ROWS)) < 0.06
    gaps[:, wrong] = False
    return pa.table(
        {
            "parcel": [f"P-{number}" for number in range(1001, 1001 + _ROWS)],
            "service": [_SERVICES[i] for i in service],
            "zone": [_ZONES[i] for i in zone],
            "length_cm": length.round(),
            "width_cm": width.round(),
            "height_cm": pa.array(height.round(), mask=gaps[0]),
            "weight_kg": weight.round(1),
            "price": price.round(2),
            "days": pa.array(days, mask=gaps[1]),
            "signature": signature,
            "booking": ["wrong" if row in wrong else "right" for row in range(_ROWS)],
        }
    )


def example_choices(columns: Sequence[Mapping[str, Any]]) -> Choices:
    """The choices that the page proposes for the example: the label, and as many flags as errors."""
    column, value = LABEL
    place = next(i for i, described in enumerate(columns) if described["name"] == column)
    return replace(
        default_choices(columns),
        label=(place, columns[place]["values"].index(value)),
        share=_ERRORS / _ROWS,
    )
