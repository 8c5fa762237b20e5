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
    coming = pathlib.Path(directory, "coming")
    shutil.copytree(delta, coming)
    coming.rename(coming.with_name(pathlib.Path(delta).name))  # a reader sees it whole
    model.update()
    print(f"step {model.global_step}: {model.predict(REQUEST)['probabilities']}")
    model.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
