"""Libraries of Estimators run as they are: every Estimator of deepctr learns in a cluster as in one process."""

from __future__ import annotations

import importlib.util
import itertools
import json
import pathlib
import re
import sys

import pytest

from tests.support.machine.processes import ROOT, Processes

PROGRAM = str(pathlib.Path(ROOT) / "tests" / "support" / "compat" / "scripts" / "deepctr_program.py")
USUAL = [("DeepFM", 1), ("WDL", 2)]
MODELS = [
    "AFM",
    "AutoInt",
    "CCPM",
    "DCN",
    "DeepFEFM",
    "DeepFM",
    "FiBiNET",
    "FNN",
    "FwFM",
    "NFM",
    "PNN",
    "WDL",
    "xDeepFM",
]
CASES = [USUAL, *([case] for case in itertools.product(MODELS, (1, 2)) if case not in USUAL)]
"""The usual jobs are one case, so that TensorFlow is imported once for both."""

CLOSE = {200: 0.004, 1000: 0.002}
"""By the number of steps: two workers update in another order than one process, which matters most at the beginning."""

OFFLINE = {"HTTPS_PROXY": "http://127.0.0.1:9"}
"""deepctr looks for its newest version at its import: here that fails at once."""
MISSING = [name for name in ("deepctr", "tensorflow_estimator", "tf_keras") if importlib.util.find_spec(name) is None]


@pytest.mark.skipif(MISSING != [], reason=f"{', '.join(MISSING)} not installed: the extra `dev` has it")
@pytest.mark.timeout(400)
@pytest.mark.usual(1)
@pytest.mark.parametrize("jobs", CASES, ids=lambda jobs: "-".join(f"{model}{num_ps}" for model, num_ps in jobs))
def test_estimators_of_deepctr_learn_as_in_one_process(processes: Processes, jobs: list[tuple[str, int]]) -> None:
    steps = 200 if jobs == USUAL else 1000
    names = [f"--job={model}:{num_ps}" for model, num_ps in jobs]
    command = [sys.executable, "-m", "ps_train", "run", "--compat", PROGRAM, f"--steps={steps}", *names]
    done = processes.command(command, env=OFFLINE)
    assert done.wait(380) == 0, done.output
    assert "trains with TensorFlow's own means" not in done.output
    results = [json.loads(text) for text in re.findall(r"FOUND (\{.*\})", done.output)]
    assert [found["model"] for found in results] == [model for model, _ in jobs]
    for found in results:
        assert found["step"] == steps
        assert found["auc"] > 0.9 and abs(found["auc"] - found["alone"]) < CLOSE[steps], found
        assert found["served"] < 1e-5
