"""Writes two days of made-up clicks as Parquet files: python make_data.py DIRECTORY

What a user, an ad, an hour and a device add to the logit stays the same from day to day.  The second day has more
users, more ads and a field of its own, the device.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet

ADS = {1: 300, 2: 400}  # as in clicks.py, which imports TensorFlow
USERS = {1: 1000, 2: 1500}
DEVICES = np.array(["phone", "tablet", "desktop"])
ROWS = {"train": 30_000, "more": 5_000, "test": 5_000}


def main(directory: str) -> None:
    effects = np.random.default_rng(0)
    of_user, of_ad = effects.normal(size=max(USERS.values())), effects.normal(size=max(ADS.values()))
    of_hour, of_device = effects.normal(size=24), np.array([1.5, 0.0, -1.5])
    for day in (1, 2):
        for number, (name, rows) in enumerate(ROWS.items()):
            random = np.random.default_rng([day, number])
            users, ads = random.integers(USERS[day], size=rows), random.integers(ADS[day], size=rows)
            hours, devices = random.integers(24, size=rows), random.integers(3, size=rows)
            logits = of_user[users] + of_ad[ads] + of_hour[hours] + (day > 1) * of_device[devices] - 1.0
            table = {
                "user": [f"user-{one}" for one in users],
                "ad": ads,
                "hour": hours.astype(np.int32),
                "click": (random.random(rows) < 1 / (1 + np.exp(-logits))).astype(np.float32),
            }
            if day > 1:
                table["device"] = DEVICES[devices]
            path = pathlib.Path(directory, f"day{day}", f"{name}.parquet")
            path.parent.mkdir(parents=True, exist_ok=True)
            pa.parquet.write_table(pa.table(table), path, row_group_size=2500)


if __name__ == "__main__":
    main(sys.argv[1])
