"""A reader of a served model: python serve.py MODEL_DIRECTORY DELTA

It scores a request, gets a delta while it serves, and scores the request again.
"""

from __future__ import annotations

import pathlib
import shutil
import sys

import numpy as np

from ps_train import serving

REQUEST = {"user": ["user-7", "user-1400"], "ad": [3, 390], "hour": np.int32([9, 20]), "device": ["phone", "desktop"]}


def main(directory: str, delta: str) -> None:
    model = serving.load(directory)
    before = model.predict(REQUEST)["probabilities"]
    print(f"step {model.global_step}: {before}")
    name = pathlib.Path(delta).name
    coming = pathlib.Path(directory, f".{name}")  # a reader leaves out names with a dot, and a rename is one step
    shutil.copytree(delta, coming)
    coming.rename(coming.with_name(name))
    model.update()
    print(f"step {model.global_step}: {model.predict(REQUEST)['probabilities']}")
    model.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
