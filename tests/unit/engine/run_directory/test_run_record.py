"""The record of a run tells what belongs to it: by run id, and by the generations that were rolled back."""

from __future__ import annotations

import pathlib

from ps_train.engine.run_directory.run_record import begin_generation, read_record, write_run_id


def test_steps_after_the_beginning_of_a_later_generation_are_rolled_back(tmp_path: pathlib.Path) -> None:
    write_run_id(str(tmp_path), "mine")
    begin_generation(str(tmp_path), "a", 0)
    assert read_record(str(tmp_path)).accepts("mine", "a", 2000)
    begin_generation(str(tmp_path), "b", 1000)
    record = read_record(str(tmp_path))
    assert record.accepts("mine", "a", 1000) and not record.accepts("mine", "a", 1001)
    assert record.accepts("mine", "b", 2000) and not record.accepts("other", "b", 500)
    begin_generation(str(tmp_path), "c", 500)
    record = read_record(str(tmp_path))
    assert record.generations == (("a", 0), ("c", 500))
    assert not record.accepts("mine", "b", 2000) and record.accepts("mine", "c", 2000)


def test_without_ids_all_is_accepted(tmp_path: pathlib.Path) -> None:
    assert read_record(str(tmp_path)).accepts("any", "a", 5)
    write_run_id(str(tmp_path), "mine")
    begin_generation(str(tmp_path), "a", 0)
    assert read_record(str(tmp_path)).accepts("", "", 5)
