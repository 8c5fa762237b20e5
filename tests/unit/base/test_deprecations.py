"""Warnings of deprecated names: those of the user's code, once for a cluster."""

from __future__ import annotations

import logging
import pathlib

import pytest
import tensorflow as tf
from tensorflow.python.util import deprecation

import ps_train
from ps_train.base.deprecations import VARIABLE, hide_own_deprecations, limit_deprecations

OWN = str(pathlib.Path(ps_train.__file__).parent / "legacy" / "layers.py")


class Kept(logging.Handler):
    """Keeps the texts of records."""

    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


@pytest.fixture
def shown(monkeypatch):
    """What TensorFlow's logger lets through."""
    monkeypatch.delenv(VARIABLE, raising=False)
    logger = tf.get_logger()
    before, handler = logger.level, Kept()
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    yield handler.texts
    logger.removeHandler(handler)
    logger.setLevel(before)
    monkeypatch.setenv(VARIABLE, "all")
    limit_deprecations(True)
    assert not logger.filters


def use(file):
    """Calls a deprecated function from a file."""
    names = {"deprecation": deprecation}
    text = "@deprecation.deprecated(None, 'use another')\ndef old(): pass\nold()"
    exec(compile(text, file, "exec"), names)
    tf.get_logger().warning("From %s to %s", "here", "there")


@pytest.mark.parametrize("is_first", [True, False])
def test_the_first_task_shows_those_of_classes_too(shown, is_first):
    limit_deprecations(is_first)
    tf.get_logger().warning("`tf.nn.rnn_cell.MultiRNNCell` is deprecated. Use another.")
    tf.get_logger().warning("`tf.train.Saver` has no files.")
    assert len(shown) == 1 + is_first


@pytest.mark.parametrize(
    ("is_first", "choice", "file", "is_shown"),
    [
        (True, "", "model.py", True),
        (False, "", "model.py", False),
        (True, "", OWN, False),
        (True, "none", "model.py", False),
        (False, "all", "model.py", True),
        (False, "all", OWN, True),
    ],
)
def test_the_first_task_shows_those_of_the_users_code(shown, monkeypatch, is_first, choice, file, is_shown):
    if choice:
        monkeypatch.setenv(VARIABLE, choice)
    limit_deprecations(not is_first)
    limit_deprecations(is_first)
    use(file)
    *deprecated, other = shown
    assert other == "From here to there"
    assert len(deprecated) == is_shown
    assert all(text.startswith(f"From {file}:3: old ") and "use another" in text for text in deprecated)


def test_a_library_hides_its_own_warnings_and_leaves_what_a_task_has_chosen(shown):
    for _ in range(2):
        hide_own_deprecations()
        use(OWN)
        use("/home/me/net.py")
    assert sum("is deprecated" in text for text in shown) >= 1 and not any(OWN in text for text in shown)
    limit_deprecations(False)
    count = len(shown)
    hide_own_deprecations()
    use("/home/me/other.py")
    assert not any("other.py" in text for text in shown[count:])
