"""Keras's own callbacks are known by their class; the user's may do anything."""

from __future__ import annotations

import inspect

import keras
import pytest

from ps_train.compat.keras.callback_needs import (
    Needs,
    counts_batches,
    hears_batches,
    may_read_in_batches,
    needs_of,
    saves_within,
)

C = keras.callbacks


class Own(C.Callback):
    def on_epoch_end(self, epoch, logs=None):
        pass


class OwnCSV(C.CSVLogger):
    pass


class OwnBatches(C.Callback):
    def on_batch_end(self, batch, logs=None):
        pass


NEEDS = [
    (C.History(), Needs.LOGS),
    (C.CSVLogger("a"), Needs.LOGS),
    (C.EarlyStopping(), Needs.LOGS),
    (C.EarlyStopping(restore_best_weights=True), Needs.WEIGHTS),
    (C.TensorBoard("a"), Needs.LOGS),
    (C.TensorBoard("a", histogram_freq=1), Needs.WEIGHTS),
    (C.TensorBoard("a", embeddings_freq=1), Needs.ALL),
    (C.ModelCheckpoint("a.keras"), Needs.ALL),
    (C.BackupAndRestore("a"), Needs.ALL),
    (C.SwapEMAWeights(), Needs.ALL),
    (C.LambdaCallback(), Needs.ALL),
    (Own(), Needs.ALL),
    (OwnCSV("a"), Needs.ALL),
]


@pytest.mark.parametrize(("callback", "needs"), NEEDS, ids=lambda value: type(value).__name__)
def test_the_needs_of(callback, needs):
    assert needs_of(callback) == needs


def test_a_callback_that_reads_only_logs_has_no_way_to_the_weights():
    for callback, needs in NEEDS:
        if needs is Needs.LOGS and type(callback) not in (C.EarlyStopping, C.TensorBoard):
            source = inspect.getsource(type(callback))
            assert "get_weights" not in source
            assert ".save" not in source


@pytest.mark.parametrize(
    ("callback", "hears", "counts", "reads"),
    [
        (C.History(), False, False, False),
        (C.ModelCheckpoint("a.keras"), False, False, False),
        (C.ModelCheckpoint("a.keras", save_freq=2), True, True, False),
        (C.TerminateOnNaN(), True, False, False),
        (C.TensorBoard("a"), True, True, False),
        (Own(), False, False, False),
        (OwnBatches(), True, True, True),
        (C.LambdaCallback(on_epoch_end=print), False, False, False),
        (C.LambdaCallback(on_train_batch_end=print), True, True, True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_hooks_of_batches(callback, hears, counts, reads):
    assert (hears_batches(callback), counts_batches(callback), may_read_in_batches(callback)) == (hears, counts, reads)


@pytest.mark.parametrize(("verbose", "hears"), [(0, False), (1, True), ("auto", True), (2, False)])
def test_the_bar_hears_of_batches_where_it_moves(verbose, hears):
    bar = C.ProgbarLogger()
    bar.set_params({"verbose": verbose, "epochs": 1, "steps": 3})
    assert hears_batches(bar) is hears


def test_a_save_every_few_batches_is_foreseen():
    saving = C.BackupAndRestore("a", save_freq=5)
    assert not saves_within(saving, 4)
    assert saves_within(saving, 5)
    saving.on_train_batch_end(0)
    assert saves_within(saving, 4)
    assert not saves_within(C.BackupAndRestore("a"), 100)
    assert not saves_within(Own(), 100)
