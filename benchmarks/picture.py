"""The picture at the top of README: the report on a made table of orders, as a browser shows it.

    python benchmarks/picture.py      # some minutes; needs chromium

1,500 orders of which 15 contradict themselves. Writes ``docs/images/report-light.png``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from playwright.sync_api import sync_playwright

from nptad.io.atomic import replacing

ROOT = Path(__file__).parents[1]
N_ROWS, N_WRONG = 1500, 15
CATEGORIES = {"books": (12, 0.4), "music": (18, 0.2), "toys": (25, 0.9), "garden": (45, 4.0), "travel": (90, 2.5)}
"""Usual unit price and weight."""
SHIPPING = {"DE": 4.0, "FR": 7.0, "IT": 8.0, "US": 15.0}
"""What a parcel costs before its weight."""


def make_orders(seed: int = 0) -> pd.DataFrame:
    """Orders whose prices, weights and costs follow from one another; the column ``known`` marks the wrong ones."""
    random = np.random.default_rng(seed)
    category = random.choice(list(CATEGORIES), N_ROWS, p=(0.3, 0.15, 0.25, 0.2, 0.1))
    country = random.choice(list(SHIPPING), N_ROWS, p=(0.5, 0.2, 0.2, 0.1))
    usual = np.array([CATEGORIES[name] for name in category])
    quantity = 1 + random.poisson(1.5, N_ROWS)
    price = usual[:, 0] * random.lognormal(0, 0.35, N_ROWS)
    weight = usual[:, 1] * quantity * random.lognormal(0, 0.2, N_ROWS)
    discount = np.where(random.random(N_ROWS) < 0.3, 0.1, 0.0) * price * quantity
    shipping = np.array([SHIPPING[name] for name in country]) + 1.8 * weight
    for place in range(N_WRONG):  # the first rows; they are shuffled in the end
        match place % 5:
            case 0:
                price[place] *= 10
            case 1:
                weight[place] = 48.0
            case 2:
                discount[place] = 1.5 * price[place] * quantity[place]
            case 3:
                shipping[place] = 4 * shipping[place] + 20
            case 4:
                quantity[place] = 40
    total = price * quantity - discount + shipping
    total[:N_WRONG:5] -= 0.9 * (price * quantity)[:N_WRONG:5]  # as if the price were the right one
    table = pd.DataFrame(
        {
            "id": [f"A{700000 + row}" for row in range(N_ROWS)],
            "placed_at": pd.Timestamp("2026-06-01") + pd.to_timedelta(random.integers(0, 110 * 24 * 60, N_ROWS), "min"),
            "country": country,
            "category": category,
            "payment": random.choice(["card", "wallet", "invoice"], N_ROWS, p=(0.5, 0.3, 0.2)),
            "customer_age": random.normal(45, 14, N_ROWS).clip(18, 90).round(),
            "quantity": quantity,
            "unit_price": price.round(2),
            "discount": discount.round(2),
            "weight_kg": weight.round(2),
            "shipping": shipping.round(2),
            "total": total.round(2),
            "known": (np.arange(N_ROWS) < N_WRONG).astype(int),
        }
    )
    for column in ("customer_age", "weight_kg"):
        table.loc[random.random(N_ROWS) < 0.04, column] = None
    order = random.permutation(N_ROWS)
    shuffled = table.iloc[order].reset_index(drop=True)
    shuffled["id"] = table["id"]
    return shuffled


def main() -> None:
    """Make the report and take its picture, the first row opened."""
    with tempfile.TemporaryDirectory() as folder:
        make_orders().to_csv(f"{folder}/orders.csv", index=False)
        command = "detect orders.csv --ignore id --label known --report report.html"
        subprocess.run([sys.executable, "-m", "nptad.cli", *command.split()], cwd=folder, check=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1100, "height": 2240})
            page.goto(f"file://{folder}/report.html")
            page.locator("details").first.locator("summary").click()
            with replacing(ROOT / "docs" / "images" / "report-light.png") as temporary:
                temporary.write_bytes(page.screenshot())
            browser.close()


if __name__ == "__main__":
    main()
