"""Wrong models and data: each is refused before any server starts, in one clear line, with exit code 2.

A row is a model with one mistake, and the texts that its line must have.
"""

from __future__ import annotations

import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

import ps_train
from ps_train import embeddings
from ps_train.base.errors import EXIT_CONFIG, PsTrainError
from ps_train.compat.tf1.contrib_opt import AdamWOptimizer, MovingAverageOptimizer
from ps_train.config.job import Job
from ps_train.data.pipeline import DataSource
from ps_train.engine.variables.trace import trace
from ps_train.modeling.load_model import load_model
from ps_train.training.joining.model_check import check_model

X = np.ones((8, 4), np.float32)
Y = np.ones((8, 1), np.float32)


class Good(ps_train.Model):
    def data(self, split, data_dir):
        return ps_train.Arrays(X, Y)

    def forward(self, features, training):
        return features @ v1.get_variable("w", [4, 1])

    def loss(self, outputs, labels):
        return tf.reduce_mean(tf.square(outputs - labels))

    def metrics(self, outputs, labels):
        return {"mse": v1.metrics.mean_squared_error(labels, outputs)}


def started(kind, monkeypatch, **job):
    """Does what the chief does before it connects to a ps."""
    module = types.ModuleType("users_module")
    module.Bad = kind
    monkeypatch.setitem(sys.modules, "users_module", module)
    parsed = Job(model="users_module:Bad", **job)
    model = load_model(parsed.model, parsed.model_arguments())
    source = DataSource(lambda: model.data("train", ""))
    check_model(model, parsed, trace(model, source, batch_size=2))


def changed(**methods):
    """Good with other methods or attributes."""
    return type("Bad", (Good,), methods)


def data(make, split="train"):
    """Good whose data() makes something else for a split."""
    return changed(data=lambda self, s, data_dir: make() if s == split else ps_train.Arrays(X, Y))


def arrays(features, labels=Y):
    return data(lambda: ps_train.Arrays(features, labels))


def loss(make):
    return changed(loss=lambda self, outputs, labels: make(outputs, labels))


def forward(make):
    return changed(forward=lambda self, features, training: make(features))


def metrics(make):
    return changed(metrics=lambda self, outputs, labels: make(outputs, labels))


def optimizer(make):
    return changed(optimizer=lambda self, name, learning_rate: make(learning_rate))


def under_another_name(self, features, training):
    years = features["age"]
    older = years + 1
    return older * features["size"]


def raising(*_):
    raise KeyError("no such column")


def pairs(dataset):
    return tf.data.Dataset.zip((dataset, tf.data.Dataset.from_tensor_slices(Y)))


def without(method):
    methods = {name: value for name, value in vars(Good).items() if callable(value) and name != method}
    return type("Bad", (ps_train.Model,), methods)


def needs_width(self, width):
    self.width = width


def fails(self):
    raise ValueError("no licence")


class Outside(Good):
    """Makes an object in its constructor."""

    def metrics(self, outputs, labels):
        return {}


class LayerOutside(Outside):
    def __init__(self):
        self.net = keras.layers.Dense(1)

    def forward(self, features, training):
        return self.net(features)


class NetworkOutside(LayerOutside):
    def __init__(self):
        self.net = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])


class LayersInList(Outside):
    def __init__(self):
        self.layers = [keras.layers.Dense(2), keras.layers.Dense(1)]

    def forward(self, features, training):
        for layer in self.layers:
            features = layer(features)
        return features


class VariableOutside(Outside):
    def __init__(self):
        self.w = tf.Variable(np.ones([4, 1], np.float32))

    def forward(self, features, training):
        return features @ self.w


class ConstantOutside(Outside):
    def __init__(self):
        self.c = tf.constant([1.0, 2.0, 3.0, 4.0])

    def forward(self, features, training):
        return Good.forward(self, features * self.c, training)


class KeptVariable(Outside):
    w = None

    def forward(self, features, training):
        if self.w is None:
            self.w = v1.get_variable("w", [4, 1])
        return features @ self.w


class MetricOutside(Outside):
    def __init__(self):
        self.m = keras.metrics.MeanSquaredError()

    def metrics(self, outputs, labels):
        self.m.update_state(labels, outputs)
        return {"mse": (self.m.result(), self.m.result())}


SCALE = tf.constant([1.0, 2.0, 3.0, 4.0])


def compiled(features):
    net = keras.Sequential([keras.layers.Dense(1)])
    net.compile("adam", "mse")
    return net(features)


def of_variable(name, shape=(1, 2)):
    return v1.get_variable(name, shape)


def of_table(features):
    return embeddings.lookup("t", features["id"] if isinstance(features, dict) else features, rows=9, dimension=2)


def tables(make):
    return type("Bad", (Good,), {
        "data": lambda self, split, data_dir: ps_train.Arrays({"id": np.arange(8)}, Y),
        "forward": lambda self, features, training: make(features),
    })  # fmt: skip


BOTH = "a variable and a table of ps_train.embeddings are both called t: rename one"
MADE = "made in tests/unit/training/joining/test_model_check.py, line "
HERE = "test_model_check.py, line "
DATA_TYPES = (
    "return ps_train.Arrays, a source such as ps_train.TFRecords, ps_train.Parquet or ps_train.Kafka, a "
    "tf.data.Dataset of single (features, labels) examples, or a Stream"
)
PAIRS = "return a dict from names to (value, update) pairs"

ROWS = {
    # The class
    "not a subclass": (types.SimpleNamespace, ["users_module:Bad", "not a subclass of ps_train.Model"]),
    "an instance in the place of the class": (Good(), ["Bad", "not a subclass of ps_train.Model"]),
    "a constructor that needs an argument": (changed(__init__=needs_width), ["width", "--model_arg=width=VALUE"]),
    "a constructor that raises": (changed(__init__=fails), ["Bad() raised ValueError: no licence", HERE]),
    "no data()": (without("data"), ["Bad has no method data()", "def data(self, split, data_dir)"]),
    "no forward()": (without("forward"), ["Bad has no method forward()", "def forward(self, features, training)"]),
    "no loss()": (without("loss"), ["Bad has no method loss()", "def loss(self, outputs, labels)"]),
    "data() without data_dir": (changed(data=lambda self, split: None), ["Bad.data(split)", "data(self, split, d"]),
    "forward() without training": (changed(forward=lambda self, x: x), ["Bad.forward(x)", "2 arguments"]),
    "loss() with three": (changed(loss=lambda self, o, y, w: 0), ["Bad.loss(o, y, w)", "2 arguments"]),
    "forward() with training by name": (
        changed(forward=lambda self, features, *, training: features),
        ["Bad.forward(features, *, training)", "def forward(self, features, training)"],
    ),
    "metrics() without arguments": (changed(metrics=lambda self: {}), ["Bad.metrics()", "metrics(self, outputs, l"]),
    "optimizer() without the rate": (changed(optimizer=lambda self, n: n), ["Bad.optimizer(n)", "learning_rate"]),
    "a value in the place of a method": (changed(metrics={}), ["Bad.metrics is dict {}", "not a method"]),
    "default_optimizer no text": (changed(default_optimizer=3), ["default_optimizer is int 3", "'adam'"]),
    "default_optimizer unknown": (changed(default_optimizer="lion"), ["optimizer=lion", "sgd, momentum, adam"]),
    "default_learning_rate no number": (changed(default_learning_rate="fast"), ["default_learning_rate", "'fast'"]),
    "default_learning_rate negative": (changed(default_learning_rate=-1), ["default_learning_rate", "above 0"]),
    # data()
    "data() returns None": (data(lambda: None), ["data() returned None", DATA_TYPES]),
    "data() returns a list": (data(lambda: [1, 2]), ["data() returned list [1, 2]", DATA_TYPES]),
    "data() returns a pair of arrays": (data(lambda: (X, Y)), ["data() returned tuple", DATA_TYPES]),
    "data() returns a dict": (data(lambda: {"x": X}), ["data() returned dict", DATA_TYPES]),
    "data() returns a generator": (data(lambda: (x for x in X)), ["data() returned <generator", DATA_TYPES]),
    "data() returns an array": (data(lambda: X), ["data() returned ndarray", DATA_TYPES]),
    "data() returns a string": (data(lambda: "train.csv"), ["data() returned str 'train.csv'", DATA_TYPES]),
    "data() raises": (data(raising), ["data() raised KeyError: 'no such column'", HERE, "in raising"]),
    "data() reads no file": (data(lambda: np.load("no.npy")), ["data() raised FileNotFoundError", "'no.npy'", HERE]),
    "data() calls exit": (data(lambda: sys.exit(0)), ["data() raised SystemExit: 0", HERE]),
    "test data of a wrong type": (data(lambda: [1], "test"), ["data() returned list [1]", DATA_TYPES]),
    "test data() raises": (data(raising, "test"), ["data() raised KeyError: 'no such column'", HERE]),
    "elements that are no pairs": (
        data(lambda: tf.data.Dataset.from_tensor_slices(X)), ["not (features, labels) pairs"],
    ),
    "elements of three": (data(lambda: tf.data.Dataset.from_tensor_slices((X, Y, Y))), ["not (features, labels)"]),
    "a dataset that an earlier call made": (
        changed(made=[], data=lambda self, s, d: (self.made or self.made.append(pairs(
            tf.data.Dataset.from_tensor_slices(X))) or self.made)[0]), ["data()", "in every call"],
    ),
    # Arrays
    "arrays of different lengths": (arrays(X[:5]), ["features 5, labels 8"]),
    "features None": (arrays(None), ["features of Arrays is None", "numpy array"]),
    "labels None": (arrays(X, None), ["labels of Arrays is None"]),
    "labels as a dict of dicts": (arrays(X, {"y": {"z": Y}}), ["label y of Arrays is a dict"]),
    "labels a single number": (arrays(X, 3), ["labels of Arrays is a single int"]),
    "labels a word": (arrays(X, "clicked"), ["labels of Arrays is a str"]),
    "features an iterator": (arrays(iter(X)), ["features of Arrays is a single"]),
    "ragged features": (arrays([[1], [2, 3]] * 4), ["features of Arrays, a list", "same shape"]),
    "an array of objects": (arrays(np.array([{}] * 8)), ["features of Arrays holds Python objects", "dict"]),
    "None among the numbers": (arrays([[1.0], [None]] * 4), ["Python objects (", "astype"]),
    "None among the texts": (arrays({"city": np.array(["a", None] * 4, object)}), ["feature city", "None"]),
    "dates": (arrays(np.zeros(8, "datetime64[D]")), ["datetime64[D]", "numbers"]),
    "records": (arrays(np.zeros(8, [("a", "f4")])), ["which TensorFlow does not have"]),
    "no features": (arrays({}), ["features has the names []"]),
    "a feature without a name": (arrays({"": X}), ["features has the names ['']"]),
    "a number as a name": (arrays({3: X}), ["features has the names [3]"]),
    # forward()
    "forward() raises": (forward(raising), ["forward() raised KeyError: 'no such column'", HERE, "in raising"]),
    "forward() returns None": (forward(lambda x: None), ["forward() returned None"]),
    "wrong shapes": (forward(lambda x: x @ v1.get_variable("w", [5, 1])), ["forward() raised ValueError", "4 and 5"]),
    "strings where numbers are due": (arrays([["a"] * 4] * 8), ["forward() raised TypeError", "string", HERE]),
    "float64 data": (
        arrays(X.astype(np.float64)),
        [HERE, "features are of float64: cast with tf.cast(x, tf.float32), or give float32 in data()"],
    ),
    "integers where floats are due": (arrays(X.astype(np.int64)), ["forward() raised", "features are of int64", HERE]),
    "booleans where floats are due": (arrays(X > 0), ["forward() raised", "features are of bool: cast", HERE]),
    "one float64 feature": (
        type("Bad", (Good,), {"data": lambda self, s, d: ps_train.Arrays({"age": X.astype(np.float64), "size": X}, Y),
                              "forward": lambda self, x, training: (x["age"] * x["size"])[:, :1]}),
        ["feature age is of float64", HERE],
    ),
    "a dtype that no input has a part in": (
        type("Bad", (Good,), {"data": lambda self, s, d: ps_train.Arrays({"age": X.astype(np.int32), "size": X}, Y),
                              "forward": lambda self, x, training: x["size"] * tf.reduce_sum(tf.range(4))}),
        ["forward() raised", HERE, "cast one of them with tf.cast(x, tf.float32)"],
    ),
    "an input under another name": (
        type("Bad", (Good,), {"data": lambda self, s, d: ps_train.Arrays({"age": X.astype(np.int32), "size": X,
                              "other": X.astype(np.int32)}, Y), "forward": under_another_name}),
        ["feature age is of int32: cast", HERE],
    ),
    "float16 labels": (arrays(X, Y.astype(np.float16)), ["loss() raised", "labels are of float16: cast", HERE]),
    "int64 labels": (arrays(X, Y.astype(np.int64)), ["loss() raised", "labels are of int64: cast", HERE]),
    "labels that are words": (arrays(X, [["yes"]] * 8), ["labels are of string: make numbers of the texts", HERE]),
    "one label of float64": (
        type("Bad", (Good,), {"data": lambda self, s, d: ps_train.Arrays(X, {"click": Y.astype(np.float64), "buy": Y}),
                              "loss": lambda self, o, y: tf.reduce_mean(o - y["click"])}),
        ["label click is of float64", HERE],
    ),
    "floating-point classes": (
        loss(lambda o, y: tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y[:, 0], logits=o))),
        ["labels are of float32: cast with tf.cast(x, tf.int64)", HERE],
    ),
    "a feature that is not there": (forward(lambda x: x["age"]), ["forward() raised", HERE]),
    "no variables": (forward(lambda x: x), ["no trainable variable", "get_variable"]),
    "a condition on a tensor": (
        forward(lambda x: x if tf.reduce_sum(x) > 0 else -x),
        ["forward() raised", "bool", HERE, "its value is not known yet: use tf.where or tf.cond"],
    ),
    "a loop over a tensor": (forward(lambda x: sum(row for row in x)), ["Iterating over", HERE, "use tf.map_fn"]),
    "a tensor as an array": (forward(lambda x: np.abs(np.asarray(x))), [HERE, "use TensorFlow's functions"]),
    "a tensor as a number": (forward(lambda x: x * float(tf.size(x))), [HERE, "use TensorFlow's functions"]),
    # Objects from elsewhere
    "a layer of the constructor": (LayerOutside, ["forward(), outside of training, uses self.net, a Dense that", MADE]),
    "a network of the constructor": (NetworkOutside, ["forward() uses self.net, a Sequential that", MADE, "inside"]),
    "a variable of the constructor": (VariableOutside, ["forward() uses self.w, a variable that", MADE, HERE]),
    "a constant of the constructor": (ConstantOutside, ["forward() uses self.c, a tensor that", MADE, "numpy arrays"]),
    "layers in a list": (LayersInList, ["uses self.layers, a Dense that this call has not made", MADE]),
    "a constant of the module": (
        forward(lambda x: (x * SCALE) @ v1.get_variable("w", [4, 1])),
        ["forward() uses SCALE, a tensor that", "line", "SCALE = tf.constant", HERE],
    ),
    "a variable kept from an earlier call": (KeptVariable, ["uses self.w, a variable that this call has not", MADE]),
    "a metric of the constructor": (MetricOutside, ["metrics() uses self.m, a MeanSquared", "tf.compat.v1.metrics"]),
    # Keras
    "a Keras metric": (
        metrics(lambda o, y: {"mse": keras.metrics.MeanSquaredError()}), ["a Keras metric", "compat.v1.metrics", HERE],
    ),
    "a compiled network": (forward(compiled), ["a Keras optimizer, as of model.compile()", "--optimizer", HERE]),
    "a layer with a state": (forward(lambda x: keras.layers.Dropout(0.5)(x)), ["a Keras layer", "tf.nn.dropout", HERE]),
    # Tables
    "a variable and then a table of its name": (tables(lambda x: of_variable("t") + of_table(x)), [BOTH, HERE]),
    "a table and then a variable of its name": (tables(lambda x: of_table(x) + of_variable("t")), [BOTH, HERE]),
    "a tf.Variable and a table of one name": (
        tables(lambda x: tf.Variable(np.ones([1, 2], np.float32), name="t") + of_table(x)), [BOTH, HERE],
    ),
    "a table of a variable's shape": (tables(lambda x: of_variable("t", [9, 2])[:1] + of_table(x)), [BOTH, HERE]),
    "floating-point ids": (
        tables(lambda x: of_table(tf.cast(x["id"], tf.float32))), ["table t is given ids of float32 (feature id)"],
    ),
    "a variable of unknown shape": (
        forward(lambda x: x @ v1.get_variable("w", initializer=tf.zeros([tf.shape(x)[0], 1]), validate_shape=False)),
        ["variable w", "give every dimension a size"],
    ),
    "another variable in evaluation": (
        changed(forward=lambda self, x, training: x @ v1.get_variable("w" if training else "v", [4, 1])),
        ["variable v", "forward(training=False)"],
    ),
    "evaluation raises": (
        changed(forward=lambda self, x, training: Good.forward(self, x, training) if training else raising()),
        ["forward(), outside of training, raised KeyError", HERE],
    ),
    # loss()
    "loss() raises": (loss(raising), ["loss() raised KeyError: 'no such column'", HERE]),
    "loss() returns None": (loss(lambda o, y: None), ["loss() returned None", "floating-point scalar"]),
    "loss() returns a number": (loss(lambda o, y: 0.5), ["loss() returned float 0.5", "scalar"]),
    "loss() returns an array": (loss(lambda o, y: np.zeros((9, 9))), ["loss() returned ndarray", "scalar"]),
    "loss() returns a vector": (loss(lambda o, y: tf.square(o - y)), ["shape (None, 1)", "tf.reduce_mean"]),
    "loss() returns an integer": (loss(lambda o, y: tf.size(o)), ["loss() returned", "int32", "floating-point"]),
    "loss() returns two": (loss(lambda o, y: (tf.reduce_mean(o), y)), ["loss() returned tuple", "scalar"]),
    "a loss without the variables": (loss(lambda o, y: tf.reduce_mean(y)), ["depends on none", "(w)"]),
    "a loss without gradient": (
        loss(lambda o, y: tf.reduce_mean(tf.cast(o > 0, tf.float32))), ["depends on none", "(w)"],
    ),
    # metrics()
    "metrics() raises": (metrics(raising), ["metrics() raised KeyError: 'no such column'", HERE]),
    "metrics() returns None": (metrics(lambda o, y: None), ["metrics() returned None", PAIRS]),
    "metrics() returns a list": (metrics(lambda o, y: [o]), ["metrics() returned list", PAIRS]),
    "a tensor in the place of a pair": (
        metrics(lambda o, y: {"mse": tf.reduce_mean(o)}), ["metrics() returned", "for 'mse'", PAIRS],
    ),
    "numbers in the place of tensors": (metrics(lambda o, y: {"mse": (1.0, 2.0)}), ["float 1.0 for 'mse'", PAIRS]),
    "a function in the place of the update": (
        metrics(lambda o, y: {"mse": (tf.reduce_mean(o), print)}), ["for 'mse'", "built-in function print", PAIRS],
    ),
    "a metric that is no scalar": (
        metrics(lambda o, y: {"mse": (tf.zeros([3]), tf.no_op())}), ["shape (3,)", "'mse'", "a scalar"],
    ),
    "a metric over all pairs of a batch": (
        metrics(lambda o, y: {"mse": v1.metrics.mean(tf.square(o[:, 0] - y))}),
        ["metric mse combines", "[batch] with labels [batch, 1]", HERE, "x[:, tf.newaxis]"],
    ),
    "a metric without a name": (metrics(lambda o, y: {"": v1.metrics.mean(o)}), ["the name ''"]),
    # optimizer()
    "optimizer() raises": (optimizer(raising), ["optimizer() raised KeyError: 'no such column'", HERE]),
    "optimizer() returns None": (optimizer(lambda rate: None), ["optimizer() returned None", "v1.train.Optimizer"]),
    "optimizer() returns a name": (optimizer(lambda rate: "adam"), ["optimizer() returned str 'adam'"]),
    "optimizer() returns a class": (
        optimizer(lambda rate: v1.train.AdamOptimizer), ["optimizer() returned <class", "v1.train.Optimizer"],
    ),
    "optimizer() returns a rate": (optimizer(lambda rate: rate), ["optimizer() returned float 0.1"]),
    "a dict of names": (optimizer(lambda rate: {"": "adam"}), ["optimizer() returned str 'adam' for ''"]),
    "no optimizer for a variable": (
        optimizer(lambda rate: {"deep": v1.train.AdamOptimizer(rate)}), ["has none for variable w", "deep"],
    ),
    "an empty dict": (optimizer(lambda rate: {}), ["has none for variable w"]),
}  # fmt: skip


@pytest.mark.usual(40)
@pytest.mark.parametrize("row", ROWS)
def test_a_mistake_in_a_model_is_one_clear_line(row, monkeypatch):
    kind, texts = ROWS[row]
    with pytest.raises(PsTrainError) as caught:
        started(kind, monkeypatch)
    message = str(caught.value)
    assert caught.value.exit_code == EXIT_CONFIG
    assert "\n" not in message and len(message) < 400, message
    assert [text for text in texts if text not in message] == [], message


def test_the_table_has_its_rows_and_the_model_without_a_mistake_passes(monkeypatch):
    assert len(ROWS) >= 57
    started(Good, monkeypatch)


def test_predictions_are_checked_before_training_if_there_will_be_an_export(monkeypatch):
    bad = changed(predictions=lambda self, outputs: [outputs])
    started(bad, monkeypatch)
    with pytest.raises(PsTrainError, match=r"predictions\(\) returned list .*: return a dict from names to tensors"):
        started(bad, monkeypatch, export_dir="somewhere")
    bad = changed(predictions=lambda self, outputs: {"rate": tf.reduce_mean(outputs)})
    with pytest.raises(PsTrainError, match=r"predictions\(\) returned a single number as 'rate': return tensors with"):
        started(bad, monkeypatch, export_dir="somewhere")


@pytest.mark.parametrize("names", [("x", "train"), ("inputs", "is_training"), ("_", "__")])
def test_arguments_may_have_other_names(monkeypatch, names):
    scope = {"v1": v1}
    exec(f"def forward(self, {', '.join(names)}): return {names[0]} @ v1.get_variable('w', [4, 1])", scope)
    started(changed(forward=scope["forward"]), monkeypatch)


@pytest.mark.parametrize(
    "features", [X.tolist(), tuple(map(tuple, X.tolist())), list(X), {"x": X.tolist()}, {"x": [1.0, 2.0] * 4}]
)
def test_lists_become_arrays_of_the_types_that_tensorflow_gives_them(monkeypatch, features):
    found = ps_train.Arrays(features, [1.0] * 8)
    assert found.labels.dtype == np.float32
    for values in found.features.values() if isinstance(features, dict) else [found.features]:
        assert isinstance(values, np.ndarray) and values.dtype == np.float32 and len(values) == 8


def test_lists_of_words_and_whole_numbers_keep_their_kind():
    found = ps_train.Arrays({"city": ["a", "bcd"], "object": np.array(["x", "yz"], object)}, [1, 0])
    assert found.labels.dtype == np.int64
    assert found.features["city"].tolist() == ["a", "bcd"] and found.features["object"].dtype.kind == "O"


def test_numpy_arrays_are_not_copied_nor_converted():
    wide = np.zeros((8, 2), np.float64)
    assert ps_train.Arrays(wide, Y).features is wide
    assert ps_train.Arrays([wide[0]] * 8, Y).features.dtype == np.float64


@pytest.mark.parametrize("split", ["train", "test"])
def test_values_that_are_not_finite_are_warned_of_with_their_name(split, monkeypatch, caplog):
    from ps_train.training.joining.model_check import warn_of_not_finite

    bad = X.copy()
    bad[3, 1], bad[4, 2] = np.nan, np.inf
    with caplog.at_level("WARNING", logger="ps_train"):
        warn_of_not_finite(split, ps_train.Arrays({"age": bad, "fine": X}, Y))
        warn_of_not_finite(split, ps_train.Arrays(X, Y))
        warn_of_not_finite(split, None)
    assert [record.getMessage() for record in caplog.records] == [
        f"age of the {split} data has 2 values that are NaN or infinite"
    ]


@pytest.mark.parametrize("name", ["adam", None])
def test_arguments_of_the_optimizer_are_checked_where_the_model_chooses_it(monkeypatch, name):
    chosen = changed(default_optimizer="adam")
    started(chosen, monkeypatch, optimizer=name, optimizer_arg=("epsilon=1e-6",))
    with pytest.raises(PsTrainError, match="optimizer_arg decay is not an argument of adam: it takes beta1") as bad:
        started(chosen, monkeypatch, optimizer_arg=("decay=0.5",))
    assert bad.value.exit_code == EXIT_CONFIG and "\n" not in str(bad.value)


def test_arguments_reach_an_optimizer_that_the_model_makes_by_its_name_among_others(monkeypatch):
    def both(self, name, learning_rate):
        named = ps_train.Model.optimizer(self, name, learning_rate)
        return {"w": named, "": v1.train.GradientDescentOptimizer(learning_rate)}

    started(changed(optimizer=both), monkeypatch, optimizer="adam", optimizer_arg=("epsilon=1e-6",))


class Sums(v1.train.Optimizer):
    """Dual averaging: a value follows from the sum of all gradients alone."""

    def __init__(self, learning_rate):
        super().__init__(False, "Sums")

    def _create_slots(self, var_list):
        for variable in var_list:
            self._zeros_slot(variable, "sum", self._name)

    def _resource_apply_dense(self, grad, handle):
        total = self.get_slot(handle, "sum").assign_add(grad, read_value=True)
        return handle.assign(-0.1 * total, read_value=False)


class Wrapped(v1.train.Optimizer):
    """Gives what it gets to another one."""

    def __init__(self, other):
        super().__init__(False, "Wrapped")
        self._other = other

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        return self._other.apply_gradients(grads_and_vars, global_step, name)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (Sums, "Sums: it computes values from its slots alone"),
        (lambda rate: Wrapped(v1.train.FtrlOptimizer(rate)), "Wrapped: it computes values from its slots alone"),
        (lambda rate: MovingAverageOptimizer(v1.train.AdamOptimizer(rate)), "MovingAverageOptimizer: it averages the"),
        (lambda rate: Wrapped(v1.train.AdamOptimizer(rate)), ""),
        (lambda rate: AdamWOptimizer(0.1, rate), ""),
        (v1.train.FtrlOptimizer, ""),
        (v1.train.AdamOptimizer, ""),
    ],
)
def test_an_optimizer_whose_slots_cannot_begin_anew_is_refused_with_local_steps(monkeypatch, make, reason):
    model = changed(optimizer=lambda self, name, rate: {"w": make(rate), "": AdamWOptimizer(0.1, rate)})
    started(model, monkeypatch)
    for flags, shown in (({"local_steps": 4}, "local_steps=4"), ({"outer_optimizer": "sgd"}, "outer_optimizer=sgd")):
        if not reason:
            started(model, monkeypatch, **flags)
            continue
        with pytest.raises(PsTrainError, match=f"^{shown} is not possible with {reason}") as bad:
            started(model, monkeypatch, **flags)
        assert bad.value.exit_code == EXIT_CONFIG and "\n" not in str(bad.value)


def test_arguments_are_refused_where_the_model_makes_its_optimizer_itself(monkeypatch):
    own = optimizer(v1.train.AdamOptimizer)
    started(own, monkeypatch)
    with pytest.raises(PsTrainError, match=r"optimizer_arg=epsilon=1 has no effect: Bad.optimizer\(\) makes") as bad:
        started(own, monkeypatch, optimizer="adam", optimizer_arg=("epsilon=1",))
    assert bad.value.exit_code == EXIT_CONFIG


@pytest.mark.parametrize("make", [v1.train.AdamOptimizer, lambda rate: v1.train.AdagradOptimizer(rate * 2.0)])
def test_a_warm_up_needs_an_optimizer_that_uses_the_rate(monkeypatch, make):
    started(optimizer(make), monkeypatch, warmup_steps=10)
    with pytest.raises(PsTrainError, match=r"warmup_steps=10 has no effect: Bad.optimizer\(\) does not use") as bad:
        started(optimizer(lambda rate: make(0.5)), monkeypatch, warmup_steps=10)
    assert bad.value.exit_code == EXIT_CONFIG
