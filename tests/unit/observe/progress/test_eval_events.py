"""Results of evaluations in event files: several files, summaries that are no numbers, and damage."""

from __future__ import annotations

import logging

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.observe.progress.eval_events import read_eval_metrics
from tests.support.saved.event_files import write


def test_metrics_are_read_by_step(tmp_path):
    write(tmp_path, {2: {"loss": 0.5, "auc": 0.25}, 1: {"loss": 2.0}})
    assert read_eval_metrics(str(tmp_path)) == {1: {"loss": 2.0}, 2: {"loss": 0.5, "auc": 0.25}}
    assert list(read_eval_metrics(str(tmp_path))) == [1, 2]


def test_files_are_joined_and_the_later_value_of_a_step_counts(tmp_path):
    write(tmp_path, {1: {"loss": 4.0, "auc": 0.5}, 2: {"loss": 3.0}})
    write(tmp_path, {2: {"loss": 2.0}, 3: {"loss": 1.0}})
    assert read_eval_metrics(str(tmp_path)) == {1: {"loss": 4.0, "auc": 0.5}, 2: {"loss": 2.0}, 3: {"loss": 1.0}}


def test_without_event_files_there_are_no_metrics(tmp_path):
    assert read_eval_metrics(str(tmp_path / "missing")) == {}
    (tmp_path / "other.txt").write_text("no events")
    assert read_eval_metrics(str(tmp_path)) == {}


def test_the_pattern_and_unusual_directories_are_literal(tmp_path):
    directory = tmp_path / "run[1]*"
    write(directory / "eval", {1: {"loss": 1.0}})
    write(directory / "eval_test", {2: {"loss": 2.0}})
    assert read_eval_metrics(str(directory), "eval/*.tfevents.*") == {1: {"loss": 1.0}}
    assert read_eval_metrics(str(directory / "eval_test")) == {2: {"loss": 2.0}}


def test_events_without_numbers_are_ignored(tmp_path):
    with tf.Graph().as_default() as graph:
        writer = v1.summary.FileWriter(str(tmp_path), graph=graph)
        writer.add_summary(v1.Summary(value=[v1.Summary.Value(tag="image", image=v1.Summary.Image(height=1))]), 5)
        writer.close()
    assert read_eval_metrics(str(tmp_path)) == {}


@pytest.mark.parametrize("damage", [lambda data: data[:-3], lambda data: data[:-20] + b"?" * 20])
def test_point_86_the_rest_of_a_damaged_file_is_ignored(tmp_path, damage):
    path = write(tmp_path, {1: {"loss": 1.0}, 2: {"loss": 2.0}})
    write(tmp_path, {3: {"loss": 3.0}})
    path.write_bytes(damage(path.read_bytes()))
    assert read_eval_metrics(str(tmp_path)) == {1: {"loss": 1.0}, 3: {"loss": 3.0}}


def test_tensorflows_note_on_its_own_reader_is_not_shown_and_others_are(tmp_path, caplog):
    write(tmp_path, {1: {"loss": 1.0}})
    before = list(v1.get_logger().filters)  # another test of this process may have installed one
    with caplog.at_level(logging.DEBUG):
        read_eval_metrics(str(tmp_path))
        v1.get_logger().warning("another note")
    assert "deprecated" not in caplog.text
    assert v1.get_logger().filters == before
