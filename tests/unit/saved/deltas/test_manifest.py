"""A delta from elsewhere cannot lead out of the directories that it is applied in, whatever its names are."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from typing import Any

import numpy as np
import pytest

from ps_train.base.errors import ConfigError, DamagedCheckpointError
from ps_train.base.untrusted import sealed
from ps_train.saved.deltas.applying import apply_deltas
from ps_train.saved.deltas.difference import make_delta
from ps_train.saved.deltas.manifest import read_manifest
from ps_train.saved.values import hash_of_file, open_saved
from tests.support.saved.exported_models import write_table_export

NAMES = [
    "../evil", "/tmp/evil", "a/../../evil", "..", ".", "", "a//b", "a/", "/a", "a\\b", "a\nb", "a\0b", "n" * 256,
    "a/" + "n" * 256, "\ud800",
]  # fmt: skip


@pytest.fixture
def delta(tmp_path: pathlib.Path) -> pathlib.Path:
    table = np.zeros([50, 2], np.float32)
    for number, name in enumerate("AB"):
        path = write_table_export(tmp_path / name, table, 1.0 + number)
        pathlib.Path(path, "assets.extra").mkdir()
        pathlib.Path(path, "assets.extra", "note").write_text(name)
    make_delta(open_saved(str(tmp_path / "A")), open_saved(str(tmp_path / "B")), str(tmp_path / "d"))
    return tmp_path / "d"


def change(delta: pathlib.Path, **changes: Any) -> dict[str, Any]:
    """Changes fields of a manifest, and its hash with them, as anybody can."""
    found = json.loads((delta / "delta.json").read_text())
    del found["sha256"]
    found |= changes
    (delta / "delta.json").write_text(json.dumps(sealed(found)))
    return found


def files_in(folder: pathlib.Path) -> set[str]:
    return {os.path.join(inner, name) for inner, _, names in os.walk(folder) for name in names}


@pytest.mark.parametrize("name", [*NAMES, "a/b", "variables.index/x", "checkpoint"])
def test_the_name_of_the_variables_is_no_path(delta: pathlib.Path, name: str) -> None:
    before = files_in(delta.parent)
    found = change(delta)
    change(delta, next={**found["next"], "name": name})
    with pytest.raises(ConfigError, match=r"delta\.json is damaged"):
        apply_deltas(open_saved(str(delta.parent / "A")), [str(delta)], str(delta.parent / "to" / "result"))
    assert files_in(delta.parent) == before


@pytest.mark.parametrize("name", [*NAMES, "variables/variables.index", "variables/x"])
def test_the_name_of_another_file_is_below_the_model(delta: pathlib.Path, name: str) -> None:
    before = files_in(delta.parent)
    found = change(delta)
    note = {name: found["files"].pop("assets.extra/note"), **found["files"]}
    change(delta, files=note, changed_files=[name])
    with pytest.raises(ConfigError, match=r"delta\.json is damaged"):
        apply_deltas(open_saved(str(delta.parent / "A")), [str(delta)], str(delta.parent / "to" / "result"))
    change(delta, files=found["files"], changed_files=[name])
    with pytest.raises(ConfigError, match=r"delta\.json is damaged"):
        read_manifest(str(delta))
    assert files_in(delta.parent) == before


def test_a_link_in_a_delta_does_not_lead_out_of_it(delta: pathlib.Path) -> None:
    secret = delta.parent / "secret"
    shutil.move(delta / "files" / "assets.extra" / "note", secret)
    (delta / "files" / "assets.extra" / "note").symlink_to(secret)
    with pytest.raises(DamagedCheckpointError, match="is a link that leads out of"):
        apply_deltas(open_saved(str(delta.parent / "A")), [str(delta)], str(delta.parent / "result"))
    (delta / "files" / "assets.extra" / "note").unlink()
    os.mkfifo(delta / "files" / "assets.extra" / "note")
    with pytest.raises(DamagedCheckpointError, match="is not a regular file"):
        apply_deltas(open_saved(str(delta.parent / "A")), [str(delta)], str(delta.parent / "result"))
    assert not (delta.parent / "result").exists()


def test_the_files_of_a_delta_have_the_hashes_of_its_manifest(delta: pathlib.Path) -> None:
    (delta / "files" / "assets.extra" / "note").write_text("other")
    with pytest.raises(DamagedCheckpointError, match="note is damaged or missing"):
        apply_deltas(open_saved(str(delta.parent / "A")), [str(delta)], str(delta.parent / "result"))
    assert hash_of_file(str(delta.parent / "B" / "assets.extra" / "note")) in (delta / "delta.json").read_text()


def test_every_character_of_a_manifest_is_in_its_hash(delta: pathlib.Path) -> None:
    found = json.loads((delta / "delta.json").read_text())
    for name, value in {**found, "base": {**found["base"], "global_step": 8}}.items():
        other = {**found, name: value if value != found[name] else [] if value != [] else {}}
        (delta / "delta.json").write_text(json.dumps(other))
        with pytest.raises((ConfigError, DamagedCheckpointError)):
            read_manifest(str(delta))


def test_deltas_of_the_version_before_are_still_applied(delta: pathlib.Path) -> None:
    found = json.loads((delta / "delta.json").read_text())
    del found["sha256"], found["made"]
    (delta / "delta.json").write_text(json.dumps({**found, "format": 2}))
    result = apply_deltas(open_saved(str(delta.parent / "A")), [str(delta)], str(delta.parent / "result"))
    assert result.hash() == open_saved(str(delta.parent / "B")).hash()


def test_a_model_with_a_name_that_is_not_taken_is_refused_when_the_delta_is_made(tmp_path: pathlib.Path) -> None:
    for name in "AB":
        write_table_export(tmp_path / name, np.zeros([5, 2], np.float32), 1.0)
    (tmp_path / "B" / "a\nb").touch()
    with pytest.raises(ConfigError, match=r"B cannot be the end of a delta: 'a\\nb' is not the name of a file"):
        make_delta(open_saved(str(tmp_path / "A")), open_saved(str(tmp_path / "B")), str(tmp_path / "d"))
    assert not (tmp_path / "d").exists()
