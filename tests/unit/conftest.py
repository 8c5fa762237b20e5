"""Settings of the unit tests: no TensorFlow chatter, and hypothesis the same on every run."""

from __future__ import annotations

import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import hypothesis
from hypothesis.configuration import set_hypothesis_home_dir

set_hypothesis_home_dir(tempfile.gettempdir())
hypothesis.settings.register_profile("unit", database=None, deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("unit")
