"""Libraries of Estimators run as they are: every Estimator of deepctr, in one process and as the tasks of a cluster."""

from __future__ import annotations

import importlib.util
import itertools
import json
import pathlib
import re
import sys
from typing import Any

import pytest

from tests.support.processes import ROOT, Processes

PROGRAM = str(pathlib.Path(ROOT) / "tests" / "support" / "scripts" / "deepctr_program.py")
STEPS = 1000
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


def started(processes: Processes, model: str, directory: str, *cluster: str) -> Any:
    command = [sys.executable, "-m", "ps_train.run", "--compat", *cluster, PROGRAM]
    return processes.command([*command, f"--model={model}", f"--model_dir={directory}"], env=OFFLINE)


def found(output: str) -> dict[str, float]:
    (text,) = re.findall(r"FOUND (\{.*\})", output)
    return json.loads(text)


@pytest.mark.skipif(MISSING != [], reason=f"{', '.join(MISSING)} not installed: the extra `dev` has it")
@pytest.mark.timeout(300)
@pytest.mark.usual(len(USUAL))
@pytest.mark.parametrize(("model", "num_ps"), CASES)
def test_an_estimator_of_deepctr_learns_as_in_one_process(processes: Processes, model: str, num_ps: int) -> None:
    alone = started(processes, model, "alone")
    cluster = started(processes, model, "cluster", f"--num_ps={num_ps}", "--num_workers=2")
    assert alone.wait(250) == 0, alone.output
    assert cluster.wait(250) == 0, cluster.output
    expected, result = found(alone.output), found(cluster.output)
    assert "trains with TensorFlow's own means" not in cluster.output
    assert expected["step"] == result["step"] == STEPS
    assert expected["auc"] > 0.9 and abs(expected["auc"] - result["auc"]) < 0.002
    assert max(expected["served"], result["served"]) < 1e-5
