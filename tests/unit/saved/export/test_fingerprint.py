"""The fingerprint of a SavedModel: hashed whole, with that of earlier versions taken as it is."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

from ps_train.base.errors import DamagedCheckpointError
from ps_train.saved.export.fingerprint import FILE, read_fingerprint, write_fingerprint
from tests.support.saved.exported_models import write_table_export


def test_a_fingerprint_is_read_back_and_each_change_of_it_is_seen(tmp_path: pathlib.Path) -> None:
    folder = write_table_export(tmp_path / "export", np.zeros([3, 2], np.float32), 1.0)
    assert read_fingerprint(folder) == {}
    write_fingerprint(folder, {"variables": "abc", "global_step": 7, "auc_loss": float("nan")})
    found = read_fingerprint(folder)
    assert (found["variables"], found["global_step"]) == ("abc", 7) and len(found["graph"]) == 64
    path = pathlib.Path(folder, FILE)
    text = path.read_text()
    for old, new in (("abc", "abd"), (": 7", ": 8"), (": 2", ": 3"), ("NaN", "1.0")):
        assert old in text
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(DamagedCheckpointError, match=r"fingerprint\.json is damaged"):
            read_fingerprint(folder)
    for damaged in ("", "{", "[]", '{"format": 1, "global_step": "x"}'):
        path.write_text(damaged)
        with pytest.raises(DamagedCheckpointError):
            read_fingerprint(folder)
    path.write_text(json.dumps({"format": 1, "graph": "g", "variables": "abc", "global_step": 7}))
    assert read_fingerprint(folder)["global_step"] == 7, "an export of an earlier version"
