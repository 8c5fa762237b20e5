"""The checkpoints that stay for good, one for each span of hours: TensorFlow's Saver is the reference."""

from __future__ import annotations

import os
import random
import time

import pytest
import tensorflow.compat.v1 as v1

from ps_train.engine.run_directory.kept_checkpoints import KeptCheckpoints
from ps_train.engine.run_directory.lasting_checkpoints import (
    LASTING,
    Lasting,
    forget_lasting_after,
    read_lasting,
    write_lasting,
)
from ps_train.engine.run_directory.run_checkpoints import checkpoints_in
from ps_train.engine.run_directory.run_files import is_of_run

HOUR = 3600.0
BEGAN = 1_800_000_000.0


class Clock:
    now = BEGAN

    def __call__(self):
        return self.now


class Run:
    """A model directory in which checkpoints are saved and removed, as a chief does."""

    def __init__(self, directory, clock, count, hours):
        self.directory, self.clock, self.settings = str(directory), clock, (count, hours)
        self.restart()

    def restart(self):
        self.rule = KeptCheckpoints(*self.settings, self.clock)

    def save(self, step):
        path = os.path.join(self.directory, f"model.ckpt-{step}.index")
        open(path, "w").close()
        os.utime(path, (self.clock.now, self.clock.now))
        kept = self.rule.after_save(self.steps(), self.directory)
        assert kept == self.rule.of(self.steps(), self.directory)
        for old in {*self.steps()}.difference(kept):
            os.remove(os.path.join(self.directory, f"model.ckpt-{old}.index"))
        return kept

    def steps(self):
        return [step for step, _ in checkpoints_in(self.directory)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [1, 3])
def test_the_same_checkpoints_stay_as_with_tensorflows_saver(tmp_path, monkeypatch, seed, count):
    clock, draw = Clock(), random.Random(seed)
    (tmp_path / "run").mkdir()
    run = Run(tmp_path / "run", clock, count, 2.0)
    with v1.Graph().as_default(), v1.Session() as session:
        v1.get_variable("x", [])
        session.run(v1.global_variables_initializer())
        monkeypatch.setattr(time, "time", clock)
        saver = v1.train.Saver(max_to_keep=count, keep_checkpoint_every_n_hours=2)
        for step in range(1, 41):
            clock.now += HOUR * draw.choice([0.1, 0.3, 0.7, 1.9, 5.0])
            saver.save(session, str(tmp_path / "tf" / "model.ckpt"), step, write_meta_graph=False)
            kept = run.save(step)
            assert kept == [step for step, _ in checkpoints_in(str(tmp_path / "tf"))]
    assert len(kept) > count + 5


def test_a_chief_that_is_started_again_continues_the_span(tmp_path):
    clock = Clock()
    run = Run(tmp_path, clock, 1, 1.0)
    for step in range(1, 31):  # each 10 minutes, and each time by a new process
        clock.now += HOUR / 6
        run.save(step)
        run.restart()
    assert run.steps() == [30, 25, 19, 13, 7]


def test_the_time_without_a_chief_does_not_count(tmp_path):
    clock = Clock()
    run = Run(tmp_path, clock, 1, 1.0)
    run.save(1)
    clock.now += 100 * HOUR
    run.restart()
    for step in range(2, 10):
        clock.now += HOUR / 6
        run.save(step)
    assert run.steps() == [9, 8]


def test_without_hours_none_stays_but_those_that_stayed_before(tmp_path):
    write_lasting(str(tmp_path), Lasting(BEGAN, (1,)))
    run = Run(tmp_path, Clock(), 2, 0.0)
    for step in range(1, 6):
        run.clock.now += 10 * HOUR
        run.save(step)
    assert run.steps() == [5, 4, 1] and run.rule.needed(str(tmp_path)) == {1}


def test_steps_after_a_restored_one_are_forgotten(tmp_path):
    write_lasting(str(tmp_path), Lasting(BEGAN, (10, 20)))
    forget_lasting_after(str(tmp_path), 15)
    assert read_lasting(str(tmp_path)) == Lasting(BEGAN, (10,))
    assert is_of_run(LASTING)


@pytest.mark.parametrize(
    "text", ["", "[1]", "{", "{}", '{"next_time": "x", "steps": []}', '{"next_time": 1.0, "steps": 1}']
)
def test_a_damaged_file_names_none(tmp_path, text):
    (tmp_path / LASTING).write_text(text)
    assert read_lasting(str(tmp_path)) == Lasting()
