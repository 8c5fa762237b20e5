"""The files of a run: its id stays, and ignored checkpoints are moved, not lost."""

from __future__ import annotations

import pathlib

from ps_train.engine.run_directory.run_files import read_run_id, set_aside


def test_the_id_of_a_run_stays_until_its_checkpoints_are_set_aside(tmp_path: pathlib.Path) -> None:
    first = read_run_id(str(tmp_path))
    assert read_run_id(str(tmp_path)) == first != ""
    (tmp_path / "model.ckpt-5.index").write_text("")
    set_aside(str(tmp_path))
    assert read_run_id(str(tmp_path)) != first


def test_nothing_is_set_aside_where_there_is_no_checkpoint(tmp_path: pathlib.Path) -> None:
    (tmp_path / "notes").write_text("mine")
    assert set_aside(str(tmp_path)) == ""
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_all_files_of_a_run_are_moved_and_others_stay(tmp_path: pathlib.Path) -> None:
    moved = ["model.ckpt-5.index", "model.ckpt-5.data-00000-of-00001", "model.ckpt-20.index", "checkpoint"]
    moved += [
        "run_id",
        "generations",
        "result.json",
        "report.html",
        "events.out.tfevents.1.host",
        "eval/events",
        "eval_b/x",
    ]
    for round_number in (1, 2):
        for name in [*moved, "status.json"]:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(f"{name} {round_number}")
        line = set_aside(str(tmp_path))
        folder = tmp_path / f"ignored-{round_number}"
        assert "step 5, 20;" in line and str(folder) in line and "starts at step 0" in line
        found = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
        assert found == {name: f"{name} {round_number}" for name in moved}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ignored-1", "ignored-2", "status.json"]
