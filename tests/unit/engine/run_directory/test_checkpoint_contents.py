"""What stands in the place of a checkpoint's files is refused, and not waited for."""

from __future__ import annotations

import os
import pathlib

import pytest

from ps_train.base.errors import DamagedCheckpointError
from ps_train.engine.run_directory.checkpoint_contents import CheckpointValues


@pytest.mark.timeout(30)
@pytest.mark.parametrize("file", ["index", "data-00000-of-00001"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_fifo_or_a_directory_is_a_damaged_checkpoint(tmp_path: pathlib.Path, file: str, make) -> None:
    path = tmp_path / "model.ckpt-1"
    (tmp_path / "model.ckpt-1.index").write_bytes(b"")
    (tmp_path / f"model.ckpt-1.{file}").unlink(missing_ok=True)
    make(f"{path}.{file}")
    with pytest.raises(DamagedCheckpointError, match=rf"{file} is not a file"):
        CheckpointValues(str(path))
