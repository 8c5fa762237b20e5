"""The models for CIFAR-10: their variables, outputs, schedules and data."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, ModelError
from ps_train.models import cifar10
from ps_train.models.cifar10 import ConvNet, ResNet20
from ps_train.models.images import AugmentedImages, synthetic_shapes
from tests.support.models.dtypes import values_cast_to

KINDS = [ConvNet, ResNet20]


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def images(count=4):
    return tf.constant(synthetic_shapes("test")[0][:count])


def shapes_of(variables):
    return {variable.op.name: tuple(variable.shape) for variable in variables}


def test_resnet_20_has_the_variables_of_the_paper():
    ResNet20().forward(images(), True)
    trained = shapes_of(v1.trainable_variables())
    kernels = {name: shape for name, shape in trained.items() if len(shape) == 4}
    assert sum(int(np.prod(shape)) for shape in trained.values()) == 269_722
    assert len(kernels) == 19 and trained["logits/weights"] == (64, 10)  # 20 layers
    for group, (before, filters) in enumerate([(16, 16), (16, 32), (32, 64)], start=1):
        for block in (1, 2, 3):
            first = (3, 3, before if block == 1 else filters, filters)
            assert kernels[f"group{group}/block{block}/layer1/convolution/weights"] == first
            assert kernels[f"group{group}/block{block}/layer2/convolution/weights"] == (3, 3, filters, filters)
    assert kernels["first/convolution/weights"] == (3, 3, 3, 16)
    averages = [name for name in shapes_of(v1.global_variables()) if name not in trained]
    assert len(averages) == 2 * 19 and {name.rpartition("/")[2] for name in averages} == {"mean", "variance"}


def test_a_shortcut_takes_every_second_pixel_and_fills_new_channels_with_zeros():
    inputs = np.random.default_rng(1).uniform(0.1, 1.0, size=(2, 8, 8, 4)).astype(np.float32)
    with v1.variable_scope("", initializer=v1.zeros_initializer()):
        outputs = cifar10._residual(tf.constant(inputs), 8, training=False)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for variable in v1.trainable_variables():
            if variable.op.name.startswith("layer2/norm/scale"):
                variable.load(np.zeros(8, np.float32), session)  # nothing but the shortcut is left
        found = session.run(outputs)
    assert found.shape == (2, 4, 4, 8)
    np.testing.assert_array_equal(found[..., 2:6], inputs[:, ::2, ::2])
    assert not found[..., [0, 1, 6, 7]].any()


@pytest.mark.parametrize("width", [4, 32])
def test_the_convolutional_network_has_six_convolutions_of_its_width(width):
    ConvNet(width=width).forward(images(), True)
    kernels = [shape for shape in shapes_of(v1.trainable_variables()).values() if len(shape) == 4]
    one, two, four = width, 2 * width, 4 * width
    pairs = [(3, one), (one, one), (one, two), (two, two), (two, four), (four, four)]
    assert kernels == [(3, 3, *pair) for pair in pairs]


@pytest.mark.usual(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("training", [False, True])
def test_outputs_are_logits_of_ten_classes(kind, training):
    model = kind()
    logits = model.forward(images(), training)
    assert logits.dtype == tf.float32 and logits.shape == (4, 10)
    assert bool(v1.get_collection(v1.GraphKeys.UPDATE_OPS)) == training
    loss = model.loss(logits, tf.constant([1, 2, 3, 4], tf.int64))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert np.isfinite(session.run(loss))


@pytest.mark.usual(1)
@pytest.mark.parametrize("kind", KINDS)
def test_training_and_evaluation_have_the_same_variables(kind):
    def names(training):
        with tf.Graph().as_default():
            kind().forward(tf.zeros([2, 32, 32, 3], tf.uint8), training)
            return shapes_of(v1.global_variables())

    assert names(True) == names(False)


def test_dropout_acts_in_training_only():
    model = ConvNet(width=4, dropout=0.5)
    with v1.variable_scope("", reuse=v1.AUTO_REUSE):
        trained, evaluated = model.forward(images(), True), model.forward(images(), False)
        without = ConvNet(width=4, dropout=0.0).forward(images(), True)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert (session.run(trained) != session.run(trained)).any()
        np.testing.assert_array_equal(session.run(evaluated), session.run(evaluated))
        np.testing.assert_allclose(session.run(without), session.run(without), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usual(1)
def test_a_model_computes_in_the_dtype_of_the_weights_that_it_gets(kind):
    model = kind()
    with values_cast_to(tf.bfloat16):
        logits = model.forward(images(), True)
    assert logits.dtype == tf.float32
    kinds = {
        operation.outputs[0].dtype
        for operation in v1.get_default_graph().get_operations()
        if operation.type == "Conv2D"
    }
    assert kinds == {tf.bfloat16}
    gradients = tf.gradients(model.loss(logits, tf.constant([1, 2, 3, 4], tf.int64)), v1.trainable_variables())
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert all(np.isfinite(gradient).all() for gradient in session.run(gradients))


def rates(model, steps, rate=0.1):
    with v1.Session() as session:
        return [session.run(model.decayed(rate, tf.constant(step, tf.int64))) for step in steps]


def test_the_rate_of_the_convolutional_network_falls_like_a_cosine():
    found = rates(ConvNet(decay_steps=400), [0, 100, 200, 300, 400, 500])
    expected = [0.05 * (1 + np.cos(np.pi * step / 400)) for step in (0, 100, 200, 300, 400, 400)]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


def test_the_rate_of_resnet_20_falls_at_the_steps_of_the_paper():
    found = rates(ResNet20(), [0, 32_000, 32_001, 48_000, 48_001, 64_000])
    np.testing.assert_allclose(found, [0.1, 0.1, 0.01, 0.01, 0.001, 0.001], rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_schedule_the_rate_is_that_of_the_job(kind):
    model = kind(decay_steps=0)
    optimizer = model.optimizer("momentum", 0.25)
    assert isinstance(optimizer, v1.train.MomentumOptimizer) and optimizer._learning_rate == 0.25


def test_the_optimizer_follows_the_schedule_at_the_global_step():
    step = v1.train.get_or_create_global_step()
    weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer())
    update = ConvNet(decay_steps=4).optimizer("sgd", 1.0).apply_gradients([(tf.constant(-1.0), weight)], step)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        found = []
        for _ in range(5):
            session.run(update)
            found.append(session.run(weight))
    expected = np.cumsum([(1 + np.cos(np.pi * step / 4)) / 2 for step in range(5)])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "arguments", "text"),
    [
        (ConvNet, {"width": 0}, "width=0"),
        (ConvNet, {"dropout": 1.0}, "dropout=1.0"),
        (ConvNet, {"dropout": -0.1}, "dropout=-0.1"),
        (ConvNet, {"decay_steps": -1}, "decay_steps=-1"),
        (ResNet20, {"decay_steps": -1}, "decay_steps=-1"),
    ],
)
def test_wrong_arguments_are_refused_with_what_is_allowed(kind, arguments, text):
    with pytest.raises(ModelError) as caught:
        kind(**arguments)
    assert text in str(caught.value) and "use a " in str(caught.value)


def test_training_images_are_augmented_unless_the_model_is_told_not_to():
    assert isinstance(ConvNet().data("train", ""), AugmentedImages)
    plain, test = ConvNet(augment=False).data("train", ""), ConvNet().data("test", "")
    assert isinstance(plain, Arrays) and isinstance(test, Arrays)
    assert (len(plain), len(test)) == (5000, 1000)


def test_files_are_read_from_the_data_dir_once(tmp_path, monkeypatch):
    calls = []

    def load(data_dir, split):
        calls.append((data_dir, split))
        return np.zeros((3, 32, 32, 3), np.uint8), np.arange(3)

    monkeypatch.setattr(cifar10, "load_cifar10", load)
    cifar10._images.cache_clear()
    try:
        for _ in range(2):
            assert len(ConvNet().data("test", str(tmp_path))) == 3
            assert isinstance(ResNet20().data("train", str(tmp_path)), AugmentedImages)
    finally:
        cifar10._images.cache_clear()
    assert calls == [(str(tmp_path), "test"), (str(tmp_path), "train")]


def test_the_mean_of_cifar_10_is_black_after_scaling():
    mean = np.broadcast_to(np.array(cifar10._MEAN), (1, 32, 32, 3))
    with v1.Session() as session:
        found = session.run(cifar10._scaled(tf.constant(mean.astype(np.uint8))))
    assert abs(found).max() < 0.02
