"""Callbacks over a job see what they see in `model.fit`: another copy of the model stands for ps and workers."""

from __future__ import annotations

import functools
import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.base.private_tf import updates_of
from ps_train.compat.keras.epochs import NO_VALIDATION, EpochDriver, Validation

BATCH, STEPS = 16, 4
random = np.random.RandomState(0)
X, Y = random.randn(BATCH * STEPS, 4).astype("f"), random.randn(BATCH * STEPS, 1).astype("f")
VX, VY = random.randn(32, 4).astype("f"), random.randn(32, 1).astype("f")
VALIDATION = Validation(VX, VY, batch_size=BATCH)


def adam():
    return keras.optimizers.Adam(0.05)


def steep():
    return keras.optimizers.SGD(0.5)


def exploding():
    return keras.optimizers.SGD(1e30)


def accumulating():
    return keras.optimizers.Adam(0.05, gradient_accumulation_steps=2)


def scaling():
    return keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.05))


def averaging():
    return keras.optimizers.SGD(0.05, momentum=0.9, use_ema=True, ema_momentum=0.8)


def scheduled():
    return keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5))


@functools.cache
def made(optimizer, role):
    """Returns a model that is built, and all its values."""
    keras.utils.set_random_seed(1)
    layers = [keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.BatchNormalization()]
    model = keras.Sequential([*layers, keras.layers.Dense(1)])
    model.compile(optimizer(), "mse", metrics=["mae"])
    model.optimizer.build(model.trainable_variables)
    model.evaluate(X, Y, verbose=0)  # which makes the variables of the metrics
    model.made_by = optimizer
    return model, [np.array(variable) for variable in model.variables + model.optimizer.variables]


def compiled(optimizer=adam, role="job"):
    """Returns a model with the same values each time; one of each role, since tracing takes longer than training."""
    model, values = made(optimizer, role)
    copy(model.variables + model.optimizer.variables, values)
    model.reset_metrics()
    model._initial_epoch = None
    return model


def copy(target, source):
    for one, other in zip(target, source, strict=True):
        one.assign(other)


class Job:
    """A cluster whose ps have the values of a second model; it counts what is asked of it."""

    def __init__(self, model, engine):
        self.model, self.engine, self.calls = model, engine, []
        copy(engine.variables, model.variables)
        copy(engine.optimizer.variables, model.optimizer.variables)
        engine.reset_metrics()
        if not hasattr(engine, "traced"):
            engine.traced = tf.function(lambda x, y: engine.train_step((x, y)))
        self.train = engine.traced

    def pull(self, slots):
        self.calls.append("pull slots" if slots else "pull")
        copy(self.model.variables, self.engine.variables)
        if slots:
            copy(self.model.optimizer.variables, self.engine.optimizer.variables)

    def pull_metrics(self):
        self.calls.append("metrics")
        copy(self.model.metrics_variables, self.engine.metrics_variables)

    def push(self):
        self.calls.append("push")
        copy(self.engine.variables, self.model.variables)
        copy(self.engine.optimizer.variables, self.model.optimizer.variables)

    def push_rate(self, rate):
        self.calls.append(f"rate {rate:.6f}")
        self.engine.optimizer.learning_rate = rate

    def new_epoch(self):
        self.calls.append("new epoch")
        self.engine.reset_metrics()

    def step(self, step):
        """Makes the global step `step`, from 0."""
        k = step % STEPS
        self.train(X[BATCH * k : BATCH * k + BATCH], Y[BATCH * k : BATCH * k + BATCH])

    def count(self, call):
        return sum(one == call for one in self.calls)


def run(model, callbacks, epochs, burst=3, step=0, job=None, **arguments):
    """Trains by a driver, and returns the history and the job."""
    driver = EpochDriver(model, callbacks, epochs=epochs, steps_per_epoch=STEPS, **{"verbose": 0, **arguments})
    first = driver.begin()
    job = job or Job(model, compiled(model.made_by, "engine"))
    driver.attach(job, step)
    is_over = driver.is_over
    while not is_over:
        end, stops = step // STEPS * STEPS + STEPS, False
        while step < end and not stops:
            job.step(step)
            step += 1
            stops = step % burst == 0 and driver.steps_made(step)
        is_over = driver.end_epoch(step)
    assert first <= epochs
    return driver.end(), job


def fitted(model, callbacks, epochs, validation=VALIDATION, **arguments):
    data = {} if validation is NO_VALIDATION else {"validation_data": (VX, VY), "validation_freq": validation.freq}
    return model.fit(X, Y, BATCH, epochs, callbacks=callbacks, shuffle=False, **data, **{"verbose": 0, **arguments})


def assert_same(history, right, model, other):
    assert history.epoch == right.epoch
    assert history.history.keys() == right.history.keys()
    for name, values in right.history.items():
        np.testing.assert_allclose(history.history[name], values, rtol=1e-5, atol=1e-6, err_msg=name)
    for one, another in zip(model.variables, other.variables, strict=True):
        np.testing.assert_allclose(one, another, rtol=1e-5, atol=1e-6, err_msg=one.path)
    for one, another in zip(model.optimizer.variables, other.optimizer.variables, strict=True):
        np.testing.assert_allclose(one, another, rtol=1e-5, atol=1e-6, err_msg=one.path)


class Own(keras.callbacks.Callback):
    """Keeps what it sees, and lowers the rate after epoch 1."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def see(self, hook, number, logs=None):
        weights = float(np.abs(self.model.get_weights()[0]).sum())
        self.seen.append((hook, number, round(weights, 4), int(self.model.optimizer.iterations), sorted(logs or {})))

    def on_epoch_begin(self, epoch, logs=None):
        self.see("begin", epoch, logs)

    def on_epoch_end(self, epoch, logs=None):
        self.see("end", epoch, logs)
        self.seen.append(float(self.model.optimizer.learning_rate))
        if epoch == 1:
            self.model.optimizer.learning_rate = 0.01

    def on_test_end(self, logs=None):
        self.see("test", 0, logs)

    def on_train_begin(self, logs=None):
        self.see("train begin", 0, logs)

    def on_train_end(self, logs=None):
        self.see("train end", 0, logs)


def both(make_callbacks, epochs, validation=VALIDATION, burst=3, optimizer=adam):
    """Trains a model by `fit` and one by a driver, each with callbacks of its own; returns both and the job."""
    right, model = compiled(optimizer, "fit"), compiled(optimizer)
    theirs, ours = make_callbacks("fit"), make_callbacks("job")
    expected = fitted(right, theirs, epochs, validation)
    history, job = run(model, ours, epochs, burst, validation=validation)
    assert_same(history, expected, model, right)
    for one, other in zip(model.variables, job.engine.variables, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=one.path)
    return theirs, ours, job, model


@pytest.mark.parametrize("burst", [1, 3, 5])
def test_the_users_callback_sees_the_same_weights_rates_and_logs(burst):
    (theirs,), (ours,), job, _ = both(lambda _: [Own()], 4, burst=burst)
    assert ours.seen == theirs.seen
    assert [call for call in job.calls if call.startswith("rate")] == ["rate 0.050000", "rate 0.010000"]
    assert job.count("push") == 0


@pytest.mark.long
def test_all_of_keras_callbacks_do_what_they_do_in_fit(tmp_path):
    def callbacks(name):
        folder = tmp_path / name
        folder.mkdir()
        return [
            Own(),
            keras.callbacks.EarlyStopping("val_loss", patience=3, restore_best_weights=True),
            keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=1),
            keras.callbacks.ModelCheckpoint(folder / "best.keras", save_best_only=True, monitor="val_loss"),
            keras.callbacks.CSVLogger(str(folder / "log.csv")),
            keras.callbacks.BackupAndRestore(str(folder / "backup"), delete_checkpoint=False),
            keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.99),
            keras.callbacks.TerminateOnNaN(),
            keras.callbacks.TensorBoard(str(folder / "events"), histogram_freq=2),
        ]

    theirs, ours, *_ = both(callbacks, 7)
    assert ours[0].seen == theirs[0].seen
    best = [keras.models.load_model(tmp_path / name / "best.keras") for name in ("fit", "job")]
    for one, other in zip(*(model.variables + model.optimizer.variables for model in best), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    logs = [np.genfromtxt(tmp_path / name / "log.csv", delimiter=",", names=True) for name in ("fit", "job")]
    assert logs[0].dtype == logs[1].dtype
    np.testing.assert_allclose(*(log.view("f8") for log in logs), rtol=1e-4, atol=1e-6)
    kinds = [sorted(path.parent.name for path in (tmp_path / name / "events").rglob("*.v2")) for name in ("fit", "job")]
    assert kinds == [["train", "validation"]] * 2


class StopsAt(keras.callbacks.Callback):
    def __init__(self, epoch, batch):
        super().__init__()
        self.at, self.batches = (epoch, batch), []

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append((self.epoch, batch, sorted(logs)))
        self.model.stop_training = self.model.stop_training or (self.epoch, batch) == self.at


def test_a_callback_hears_of_every_batch_in_order():
    theirs, ours, *_ = both(lambda _: [StopsAt(-1, -1)], 3)
    assert ours[0].batches == theirs[0].batches
    assert len(ours[0].batches) == 3 * STEPS


def test_stop_training_in_the_midst_of_an_epoch_ends_it_with_its_validation():
    theirs, ours, *_ = both(lambda _: [StopsAt(1, 2)], 5, burst=1)
    assert ours[0].batches == theirs[0].batches
    assert len(ours[0].batches) == STEPS + 3


def test_stop_training_within_a_burst_spares_the_hooks_of_its_later_batches():
    model, callback = compiled(), StopsAt(0, 0)
    history, _ = run(model, [callback], 5, burst=3)
    assert [batch for _, batch, _ in callback.batches] == [0]
    assert history.epoch == [0]
    assert int(model.optimizer.iterations) == 3


class Halves(keras.callbacks.Callback):
    """Writes weights and a slot at the end and the begin of epochs."""

    def on_epoch_end(self, epoch, logs=None):
        if epoch in (0, 3):
            self.model.set_weights([0.5 * weight for weight in self.model.get_weights()])

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            self.model.optimizer.variables[-1].assign(self.model.optimizer.variables[-1] * 2)


def test_what_a_callback_writes_is_trained_on():
    *_, job, _ = both(lambda _: [Halves()], 4)
    assert job.count("push") == 3  # after epoch 0, at the begin of 2, and at the end
    assert job.count("pull slots") == 1 + 4


@pytest.mark.long
def test_moving_averages_are_swapped_in_for_validation_and_for_epochs():
    for on_epoch in (False, True):
        both(lambda _: [keras.callbacks.SwapEMAWeights(swap_on_epoch=on_epoch), Own()], 3, optimizer=averaging)  # noqa: B023


def test_validation_has_its_epochs():
    for freq in (2, [1, 4]):
        both(lambda _: [], 4, Validation(VX, VY, batch_size=BATCH, freq=freq))


def test_a_validation_of_a_generator_reads_only_its_steps():
    read = []

    def batches():
        for k in range(100):
            read.append(k)
            yield VX[:16], VY[:16]

    validation = Validation(batches(), steps=2)
    history, _ = run(compiled(), [], 3, validation=validation)
    assert len(history.history["val_loss"]) == 3
    assert len(read) <= 8


def test_a_validation_frequency_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="validation_freq='often' is not possible"):
        Validation(VX, freq="often")
    with pytest.raises(ConfigError, match="validation_freq=0"):
        Validation(VX, freq=0)


class Interrupts(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise RuntimeError("interrupted")


def test_backup_and_restore_goes_on_where_a_job_was_interrupted(tmp_path):
    def backup(name):
        return keras.callbacks.BackupAndRestore(str(tmp_path / name))

    for name, train in (("fit", fitted), ("job", run)):
        with pytest.raises(RuntimeError, match="interrupted"):
            train(compiled(role="fit"), [backup(name), Interrupts()], 5)
    right, model = compiled(role="fit"), compiled()
    expected = fitted(right, [backup("fit")], 5)
    history, _ = run(model, [backup("job")], 5, validation=VALIDATION)
    assert history.epoch == [2, 3, 4]
    assert_same(history, expected, model, right)


def test_a_recovery_goes_on_with_the_epochs_that_were_restored(tmp_path):
    def begun(*callbacks):
        model = compiled(role="fit")
        backup = keras.callbacks.BackupAndRestore(str(tmp_path / "backup"))
        driver = EpochDriver(model, [backup, *callbacks], epochs=5, steps_per_epoch=STEPS, verbose=0)
        first = driver.begin()
        job = Job(model, compiled(role="engine"))
        driver.attach(job)
        return first, driver, job

    _, driver, _ = begun(Interrupts())
    driver.end_epoch(STEPS)
    with pytest.raises(RuntimeError, match="interrupted"):
        driver.end_epoch(2 * STEPS)
    first, driver, job = begun()
    assert first == 2
    assert not driver.end_epoch(STEPS)
    driver.attach(job, STEPS)
    assert not driver.is_over
    assert not driver.end_epoch(2 * STEPS)
    assert driver.end_epoch(3 * STEPS)  # the fifth epoch


def test_a_job_resumes_within_an_epoch():
    right = compiled(role="fit")
    expected = fitted(right, [], 3)
    before, step = compiled(role="before"), STEPS + 2
    first = EpochDriver(before, [], epochs=3, steps_per_epoch=STEPS, verbose=0, validation=VALIDATION)
    first.begin()
    job = Job(before, compiled(role="engine"))
    first.attach(job)
    for made in range(step):
        job.step(made)
        if made + 1 == STEPS:
            first.end_epoch(STEPS)
    model = job.model = compiled()
    own = StopsAt(-1, -1)
    history, _ = run(model, [own], 3, step=step, job=job, validation=VALIDATION)
    assert [(epoch, batch) for epoch, batch, _ in own.batches] == [(1, 2), (1, 3), *((2, k) for k in range(STEPS))]
    assert history.epoch == [1, 2]
    np.testing.assert_allclose(history.history["loss"], expected.history["loss"][1:], rtol=1e-5)
    np.testing.assert_allclose(history.history["val_loss"], expected.history["val_loss"][1:], rtol=1e-5)
    assert int(model.optimizer.iterations) == 3 * STEPS


def test_a_resumed_job_has_the_rate_that_was_lowered_before():
    before = compiled(role="before")
    job = Job(before, compiled(role="engine"))
    before.optimizer.learning_rate = 0.002
    job.push()
    model = job.model = compiled()
    run(model, [], 2, step=STEPS, job=job)
    assert float(job.engine.optimizer.learning_rate) == float(model.optimizer.learning_rate) == np.float32(0.002)


def test_a_job_whose_steps_are_all_made_only_gets_its_values():
    model = compiled()
    trained = compiled(role="before")
    fitted(trained, [], 2)
    job = Job(trained, compiled(role="engine"))
    job.model = model
    history, _ = run(model, [Own()], 2, step=2 * STEPS, job=job)
    assert history.history == {}
    for one, other in zip(model.weights, trained.weights, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("optimizer", [adam, accumulating, scaling])
def test_iterations_are_counted_where_nothing_is_pulled(tmp_path, optimizer):
    model, seen = compiled(optimizer), []
    events = keras.callbacks.TensorBoard(str(tmp_path), write_steps_per_second=True)
    log_metrics = events.on_epoch_end
    events.on_epoch_end = lambda *args: (seen.append(int(updates_of(model.optimizer))), log_metrics(*args))
    _, job = run(model, [events], 2)
    assert seen == [STEPS, 2 * STEPS]
    assert (job.count("pull"), job.count("pull slots")) == (0, 1)


def test_steps_that_are_made_again_after_a_recovery_are_heard_of_once():
    model, callback = compiled(), StopsAt(-1, -1)
    driver = EpochDriver(model, [callback], epochs=1, steps_per_epoch=STEPS, verbose=0)
    driver.begin()
    driver.attach(Job(model, compiled(role="engine")))
    assert [driver.steps_made(step) for step in (3, 1, 3, 4)] == [False] * 4
    assert driver.end_epoch(4)
    assert [batch for _, batch, _ in callback.batches] == [0, 1, 2, 3]


def test_nothing_is_pulled_for_callbacks_that_read_logs():
    callbacks = [keras.callbacks.CSVLogger("/dev/null"), keras.callbacks.ReduceLROnPlateau("loss", patience=1)]
    _, job = run(compiled(), callbacks, 4)
    assert (job.count("pull"), job.count("pull slots"), job.count("push")) == (0, 1, 0)
    assert job.count("metrics") == 4


def test_weights_alone_are_pulled_for_validation_and_best_weights():
    callbacks = [keras.callbacks.EarlyStopping("loss", patience=9, restore_best_weights=True)]
    for given, validation in ((callbacks, NO_VALIDATION), ([], VALIDATION)):
        _, job = run(compiled(), given, 4, validation=validation)
        assert (job.count("pull slots"), job.count("push")) == (1, 0)
        assert job.count("pull") == (4 if given else 3)


def test_early_stopping_restores_the_best_weights_on_the_ps_too():
    model = compiled(steep)
    stopping = keras.callbacks.EarlyStopping("loss", patience=1, mode="max", restore_best_weights=True)
    history, job = run(model, [stopping], 9)
    assert history.epoch[-1] == stopping.stopped_epoch < 8
    assert job.count("push") == 1
    for one, other in zip(job.engine.weights, stopping.best_weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_schedule_of_keras_is_not_pushed():
    *_, job, model = both(lambda _: [Silent()], 2, optimizer=scheduled)
    assert not any(call.startswith("rate") for call in job.calls)
    assert int(model.optimizer.iterations) == 2 * STEPS


class Silent(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        pass


def test_a_checkpoint_every_few_batches_has_the_weights_of_its_burst(tmp_path):
    path = str(tmp_path / "{batch}.weights.h5")
    model = compiled()
    saving = keras.callbacks.ModelCheckpoint(path, save_freq=3, save_weights_only=True)
    _, job = run(model, [saving], 1, burst=2)
    assert [file.name for file in tmp_path.iterdir()] == ["3.weights.h5"]
    other = compiled(role="fit")
    other.load_weights(tmp_path / "3.weights.h5")
    for one, another in zip(job.engine.weights, other.weights, strict=True):
        np.testing.assert_array_equal(one, another)
    assert job.count("pull slots") == 3  # at the begin, for the checkpoint, at the end


class WarmsUp(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.model.optimizer.learning_rate = float(self.model.optimizer.learning_rate) * 0.9


def test_a_rate_that_changes_with_each_batch_holds_from_the_next_burst_on():
    *_, job, _ = both(lambda _: [WarmsUp()], 2, burst=1)
    assert len([call for call in job.calls if call.startswith("rate")]) == 1 + 2 * STEPS
    _, job = run(compiled(), [WarmsUp()], 2, burst=4)
    assert [call for call in job.calls if call.startswith("rate")] == [
        f"rate {0.05 * 0.9**made:.6f}" for made in (0, STEPS, 2 * STEPS)
    ]


class WritesInBatches(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.model.set_weights([0 * weight for weight in self.model.get_weights()])


def test_weights_written_in_the_hooks_of_a_batch_are_not_pushed_and_a_line_says_so(caplog):
    with caplog.at_level(logging.WARNING):
        _, job = run(compiled(), [WritesInBatches()], 1, burst=1)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "are not trained on" in caplog.text
    assert np.abs(job.engine.get_weights()[0]).sum() > 0
    assert job.count("push") == 0


def test_the_bar_is_that_of_keras(capsys):
    fitted(compiled(role="fit"), [], 2, verbose=2)
    theirs = capsys.readouterr().out
    run(compiled(), [], 2, verbose=2, validation=VALIDATION)
    ours = capsys.readouterr().out

    def without_times(text):
        return [
            [part for part in line.split(" - ") if "/step" not in part and "s" not in part[-2:]]
            for line in text.splitlines()
        ]

    assert without_times(ours) == without_times(theirs)
    run(compiled(), [], 2, verbose=1, validation=VALIDATION)
    shown = capsys.readouterr().out
    assert "Epoch 2/2" in shown
    assert "4/4" in shown
    assert "val_mae:" in shown
    run(compiled(), [], 2, verbose=0, validation=VALIDATION)
    assert capsys.readouterr().out == ""


def test_logs_of_an_own_train_step_are_those_of_its_newest_step():
    found = iter(range(100))
    for logs, names in (({"own": 1.0}, ["own"]), ({"loss": 0, "mae": 0}, ["loss", "mae"])):
        history, _ = run(compiled(), [], 2, step_logs=lambda logs=logs: {name: next(found) for name in logs})
        assert sorted(history.history) == names
    assert history.history["loss"][0] != int(history.history["loss"][0])  # of the metrics


def test_a_list_of_the_user_is_taken_as_it_is():
    model, own = compiled(), StopsAt(-1, -1)
    given = keras.callbacks.CallbackList([own], add_history=True, model=model, epochs=2, steps=STEPS, verbose=0)
    history, _ = run(model, given, 2)
    assert len(own.batches) == 2 * STEPS
    assert history.epoch == [0, 1]
    assert run(model, keras.callbacks.CallbackList(), 1)[0] is not None


@pytest.mark.parametrize("steps", [None, 1])
def test_validation_data_may_be_a_dataset(steps):
    data = tf.data.Dataset.from_tensor_slices((VX, VY)).batch(BATCH)
    right, model = compiled(role="fit"), compiled()
    expected = right.fit(X, Y, BATCH, 2, 0, shuffle=False, validation_data=data, validation_steps=steps)
    history, _ = run(model, [], 2, validation=Validation(data, batch_size=BATCH, steps=steps))
    assert_same(history, expected, model, right)


def test_an_error_in_a_callback_goes_through_unchanged():
    error = KeyError("mine")

    def fail(epoch, logs):
        raise error

    with pytest.raises(KeyError) as caught:
        run(compiled(), keras.callbacks.LambdaCallback(on_epoch_end=fail), 1)
    assert caught.value is error


def test_a_loss_that_is_not_a_number_stops_the_job():
    model = compiled(exploding)
    history, _ = run(model, [keras.callbacks.TerminateOnNaN()], 9, burst=1)
    assert len(history.epoch) < 9


def test_a_job_that_diverged_ends_as_terminate_on_nan_asks():
    told = []
    last = keras.callbacks.LambdaCallback(on_train_end=lambda logs: told.append(logs))
    driver = EpochDriver(
        compiled(), [keras.callbacks.TerminateOnNaN(), last], epochs=2, steps_per_epoch=STEPS, verbose=0
    )
    driver.begin()
    assert driver.terminates_on_nan
    driver.terminate()
    assert driver._model.stop_training and len(told) == 1
    other = EpochDriver(compiled(), [last], epochs=2, steps_per_epoch=STEPS, verbose=0)
    other.begin()
    assert not other.terminates_on_nan
