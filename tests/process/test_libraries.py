"""Libraries of Estimators run as they are: every Estimator of deepctr learns in a cluster as in one process."""

from __future__ import annotations

import importlib.util
import itertools
import json
import pathlib
import re
import sys

import pytest

from tests.support.processes import ROOT, Processes

PROGRAM = str(pathlib.Path(ROOT) / "tests" / "support" / "scripts" / "deepctr_program.py")
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
CASES = [*USUAL, *(case for case in itertools.product(MODELS, (1, 2)) if case not in USUAL)]
OFFLINE = {"HTTPS_PROXY": "http://127.0.0.1:9"}
"""deepctr looks for its newest version at its import: here that fails at once."""
MISSING = [name for name in ("deepctr", "tensorflow_estimator", "tf_keras") if importlib.util.find_spec(name) is None]


@pytest.mark.skipif(MISSING != [], reason=f"{', '.join(MISSING)} not installed: the extra `dev` has it")
@pytest.mark.timeout(300)
@pytest.mark.usual(len(USUAL))
@pytest.mark.parametrize(("model", "num_ps"), CASES)
def test_an_estimator_of_deepctr_learns_as_in_one_process(processes: Processes, model: str, num_ps: int) -> None:
    steps = 400 if (model, num_ps) in USUAL else 1000
    launch = ["-m", "ps_train.run", "--compat", f"--num_ps={num_ps}", "--num_workers=2"]
    command = [sys.executable, *launch, PROGRAM, f"--model={model}", f"--steps={steps}"]
    cluster = processes.command(command, env=OFFLINE)
    assert cluster.wait(280) == 0, cluster.output
    assert "trains with TensorFlow's own means" not in cluster.output
    (text,) = re.findall(r"FOUND (\{.*\})", cluster.output)
    found = json.loads(text)
    assert found["step"] == steps
    assert found["auc"] > 0.9 and abs(found["auc"] - found["alone"]) < 0.002, found
    assert found["served"] < 1e-5
