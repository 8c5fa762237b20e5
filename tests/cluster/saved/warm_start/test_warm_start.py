"""Warm starts: each id of a new job begins with the values that it had, and the rest as new; against numpy."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, embeddings
from ps_train.base.errors import ConfigError
from ps_train.cluster.sessions.server import device_of
from ps_train.config.job import Task
from ps_train.engine.run_directory import checkpoint_contents
from ps_train.modeling.tables.id_encoding import encode_ids
from ps_train.modeling.tables.row_order import positions_of
from ps_train.modeling.tables.table import Table
from ps_train.saved.deltas.applying import apply_deltas
from ps_train.saved.deltas.difference import make_delta
from ps_train.saved.values import open_saved
from ps_train.saved.warm_start import writing
from ps_train.saved.warm_start.choices import choose
from ps_train.saved.warm_start.name_map import read_map
from ps_train.saved.warm_start.source_checkpoint import open_source
from ps_train.saved.warm_start.warm_start import WarmStart, warm_start
from tests.support.clusters.cluster import InProcessCluster
from tests.support.models.small import Linear

DIMENSION = 3
SLOTS = {
    "adam": ["Adam", "Adam_1"],
    "adagrad": ["Adagrad"],
    "momentum": ["Momentum"],
    "sgd": [],
    "lazy_adam": ["Adam", "Adam_1"],
}


class Net(Linear):
    """A table and dense variables; the data has each id some times."""

    def __init__(self, ids: Any, name: str = "t", width: int = 4, scope: str = "net", **declaration: Any) -> None:
        self.ids, self.name, self.width, self.scope, self.declaration = np.asarray(ids), name, width, scope, declaration

    def data(self, split, data_dir):
        labels = np.random.default_rng(3).normal(size=(len(self.ids), DIMENSION)).astype(np.float32)
        return Arrays(self.ids, labels)

    def forward(self, features, training):
        with v1.variable_scope(self.scope):
            w = v1.get_variable("w", [40, DIMENSION])
            b = v1.get_variable("b", [self.width])
        rows = embeddings.lookup(self.name, features, dimension=DIMENSION, **self.declaration)
        rows = rows if rows.shape.rank == 2 else tf.reduce_sum(rows, 1)
        return rows + tf.reduce_mean(w, 0) + tf.reduce_sum(b)


def made(model: Net, num_ps: int = 2, directory: pathlib.Path | None = None, **fields: Any) -> InProcessCluster:
    fields = {"optimizer": "lazy_adam", "learning_rate": 0.1, "batch_size": 16, **fields}
    return InProcessCluster(model, num_ps, 1, directory, partition_bytes=128, **fields)


def trained(model: Net, directory: pathlib.Path, num_ps: int = 2, steps: int = 12, **fields: Any) -> InProcessCluster:
    cluster = made(model, num_ps, directory, **fields)
    cluster.start()
    cluster.train(steps)
    assert cluster.checkpoints is not None
    cluster.checkpoints.save(cluster.sessions[0])
    return cluster


def warm(
    model: Net,
    path: Any,
    num_ps: int = 1,
    names: pathlib.Path | str = "",
    slots: str = "keep",
    keeps_step: bool = False,
    **fields: Any,
) -> tuple[InProcessCluster, dict[str, np.ndarray], dict[str, np.ndarray], WarmStart]:
    """A cluster after a warm start, its values before and after, and the warm start."""
    cluster = made(model, num_ps, **fields)
    cluster.start()
    before = cluster.values()
    source = open_source(str(path), f"warm_start={path}")
    choices = choose(cluster.traced, source, read_map(str(names)))
    with cluster.steps[0].graph.as_default():
        found = warm_start(
            choices, source, cluster.steps[0].ps.entries, device_of(Task("worker", 0)), slots, keeps_step
        )
    found.write(cluster.sessions[0])
    return cluster, before, cluster.values(), found


def by_id(values: np.ndarray) -> np.ndarray:
    return values[positions_of(np.arange(len(values)), len(values))]


def lines_of(found: WarmStart) -> dict[str, list[str]]:
    return {line.split()[1]: line.split() for line in found.report().splitlines()[2:-1] if line.split()[1] != "-"}


@pytest.mark.parametrize(
    ("optimizer", "old_rows", "new_rows", "old_ps", "new_ps"),
    [("lazy_adam", 700, 900, 2, 1), ("adagrad", 900, 700, 1, 3), ("momentum", 40, 300, 3, 2), ("sgd", 300, 300, 1, 2)],
)
@pytest.mark.usual(1)
def test_a_table_that_grew_or_shrank_keeps_rows_and_slots_by_id(
    optimizer, old_rows, new_rows, old_ps, new_ps, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(checkpoint_contents, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(writing, "CHUNK_BYTES", 200)
    old = trained(Net(np.arange(old_rows), rows=old_rows), tmp_path, old_ps, optimizer=optimizer, steps=60)
    expected = old.values()
    _, before, after, found = warm(Net(np.arange(new_rows), rows=new_rows), tmp_path, new_ps, optimizer=optimizer)
    kept = min(old_rows, new_rows)
    for key in ["t", *(f"t/{slot}" for slot in SLOTS[optimizer])]:
        assert np.array_equal(by_id(after[key])[:kept], by_id(expected[key])[:kept]), key
        assert np.array_equal(by_id(after[key])[kept:], by_id(before[key])[kept:]), key
        assert not np.array_equal(by_id(after[key])[:kept], by_id(before[key])[:kept]), key
    for key in ["net/w", "net/b", *(key for key in expected if key.endswith("_power"))]:
        assert np.array_equal(after[key], expected[key]), key
    assert after["global_step"] == 0
    line = lines_of(found)["t"]
    assert line[0] == ("taken" if old_rows == new_rows else "remapped") and line[3:6] == [
        str(kept),
        "of",
        str(new_rows),
    ]
    assert line[6] == str(kept * DIMENSION * 4)


@pytest.mark.long
def test_slots_are_dropped_and_the_step_is_kept(tmp_path) -> None:
    old = trained(Net(np.arange(50), rows=50), tmp_path).values()
    _, before, after, found = warm(Net(np.arange(50), rows=50), tmp_path, slots="drop", keeps_step=True)
    assert np.array_equal(after["t"], old["t"]) and after["global_step"] == 12
    for key in ("t/Adam", "t/Adam_1", "net/w/Adam", "beta1_power"):
        assert np.array_equal(after[key], before[key]) and lines_of(found)[key][0] == "fresh"


@pytest.mark.long
def test_another_optimizer_begins_with_new_slots(tmp_path) -> None:
    old = trained(Net(np.arange(50), rows=50), tmp_path).values()
    _, before, after, found = warm(Net(np.arange(50), rows=50), tmp_path, optimizer="adagrad")
    assert np.array_equal(after["t"], old["t"]) and np.array_equal(after["t/Adagrad"], before["t/Adagrad"])
    assert {"t/Adam", "t/Adam_1", "net/b/Adam", "beta1_power"} <= set(found.unused())


@pytest.mark.long
@pytest.mark.parametrize(("old", "new"), [("adagrad", "rowwise_adagrad"), ("rowwise_adagrad", "adagrad")])
def test_sums_of_squares_are_rebuilt_for_another_adagrad(old, new, tmp_path) -> None:
    names = {"adagrad": "Adagrad", "rowwise_adagrad": "RowWiseAdagrad"}
    before = trained(Net(np.arange(50), rows=50), tmp_path, optimizer=old).values()
    _, _, after, _ = warm(Net(np.arange(50), rows=50), tmp_path, 2, slots="rebuild", optimizer=new)
    for name in ("t", "net/w", "net/b"):
        sums = before[f"{name}/{names[old]}"]
        if name != "net/b":
            sums = sums.mean(1, dtype=np.float32) if old == "adagrad" else np.repeat(sums[:, None], DIMENSION, 1)
        assert np.array_equal(after[f"{name}/{names[new]}"], sums), name
    assert np.array_equal(after["t"], before["t"])


@pytest.mark.parametrize("num_ps", [1, 2])
@pytest.mark.long
def test_names_come_from_the_map(num_ps, tmp_path) -> None:
    old = trained(Net(np.arange(50), rows=50), tmp_path / "old").values()
    names = tmp_path / "names.map"
    names.write_text("# renamed\nusers = t\ndeep/ = net/   # a scope\ndeep/b =\n")
    model = Net(np.arange(60), "users", scope="deep", rows=60)
    _, before, after, found = warm(model, tmp_path / "old", num_ps, names)
    for slot in ("", "/Adam", "/Adam_1"):
        assert np.array_equal(by_id(after[f"users{slot}"])[:50], by_id(old[f"t{slot}"]))
        assert np.array_equal(after[f"deep/w{slot}"], old[f"net/w{slot}"])
        assert np.array_equal(after[f"deep/b{slot}"], before[f"deep/b{slot}"])
    assert "net/b" in found.unused() and lines_of(found)["deep/b"][0] == "fresh"


@pytest.mark.long
def test_a_dense_variable_of_another_shape_starts_as_new_and_is_named(tmp_path) -> None:
    trained(Net(np.arange(50), rows=50), tmp_path)
    _, before, after, found = warm(Net(np.arange(50), width=6, rows=50), tmp_path)
    assert np.array_equal(after["net/b"], before["net/b"])
    assert "net/b: shape [4], here [6]" in found.report()


@pytest.mark.long
def test_fields_and_their_default_rows_keep_their_ids(tmp_path) -> None:
    ids = np.stack([np.arange(30) % 9, np.arange(30) % 12], 1)
    old = by_id(trained(Net(ids, rows=[8, 11], oov="default"), tmp_path).values()["t"])
    new = np.concatenate([ids, ids[:, :1]], 1)
    _, before, after, _ = warm(Net(new, rows=[10, 6, 5], oov="default"), tmp_path, 2)
    before, after = by_id(before["t"]), by_id(after["t"])
    expected = before.copy()
    expected[:8], expected[10] = old[:8], old[8]
    expected[11:17], expected[17] = old[9:15], old[20]
    assert np.array_equal(after, expected)


@pytest.mark.long
@pytest.mark.parametrize(("buckets", "copies"), [(60, 3), (20, 1), (30, 0), (10, 0)])
def test_hashed_ids_keep_their_values_where_their_bucket_is_known(buckets, copies, tmp_path) -> None:
    ids = np.arange(100) * 7919
    old = by_id(trained(Net(ids, hash_buckets=20), tmp_path).values()["t"])
    _, before, after, found = warm(Net(ids, hash_buckets=buckets), tmp_path, 2)
    expected = np.tile(old, [copies, 1]) if copies else by_id(before["t"])
    assert np.array_equal(by_id(after["t"]), expected)
    assert copies or "hash_buckets=20, here" in found.report()


def _users(values: dict[str, np.ndarray], slot: str = "") -> dict[tuple[int, ...], Any]:
    """The row of each id of an open vocabulary, by its key."""
    used = np.flatnonzero(values["t/used"][:, 0])
    return {tuple(values["t/keys"][row].tolist()): values[f"t{slot}"][row].tolist() for row in used}


IDS = np.arange(60) * 977 + 5
WORDS = np.array([f"word{i}".encode() for i in range(60)], object)


@pytest.mark.parametrize(("capacity", "ids"), [(400, IDS), (600, WORDS), (100, IDS), (4000, WORDS)])
@pytest.mark.long
def test_an_open_vocabulary_keeps_its_ids_at_another_capacity(capacity, ids, tmp_path) -> None:
    old = trained(Net(ids, capacity=600), tmp_path, steps=20)
    expected = old.values()
    cluster, _, after, _ = warm(Net(ids, capacity=capacity), tmp_path, 2)
    assert len(_users(expected)) == 60
    for slot in ("", "/Adam", "/Adam_1", "/used"):
        assert _users(after, slot) == _users(expected, slot), slot
    assert np.array_equal(after["t/default"], expected["t/default"])
    if capacity == 600:
        assert np.array_equal(after["t/keys"], expected["t/keys"])
    cluster.train(3)
    trained_on = cluster.values()
    assert len(_users(trained_on)) == 60, "no id gets a second row"
    assert _users(trained_on) != _users(after)


@pytest.mark.long
def test_a_smaller_vocabulary_keeps_the_ids_that_were_used_most(tmp_path) -> None:
    ids = np.concatenate([IDS, np.tile(IDS[:20], 3)])
    old = trained(Net(ids, capacity=100), tmp_path, steps=40, batch_size=8).values()
    _, _, after, _ = warm(Net(ids, capacity=20), tmp_path)
    kept = {key[0] for key in _users(after)}
    uses = {key[0]: used[:2] for key, used in _users(old, "/used").items()}
    assert kept == set(sorted(uses, key=lambda id: uses[id], reverse=True)[:20])


@pytest.mark.parametrize("num_ps", [1, 3])
@pytest.mark.long
def test_a_plain_table_becomes_an_open_vocabulary_and_back(num_ps, tmp_path) -> None:
    plain = Net(np.arange(60), rows=60, oov="default")
    old = trained(plain, tmp_path / "plain").values()
    opened, _, after, _ = warm(Net(np.arange(60), capacity=600), tmp_path / "plain", num_ps)
    for slot in ("", "/Adam", "/Adam_1"):
        expected = by_id(old[f"t{slot}"])
        assert _users(after, slot) == {(i,): expected[i].tolist() for i in range(60)}
        assert np.array_equal(after[f"t/default{slot}"][0], expected[60])
    opened.train(4)
    assert len(_users(opened.values())) == 60

    trained(Net(np.arange(60) + 20, capacity=600), tmp_path / "open", steps=20)
    reader = tf.train.load_checkpoint(str(tmp_path / "open"))
    users = _users({key: reader.get_tensor(key) for key in ("t", "t/keys", "t/used")})
    _, before, back, _ = warm(Net(np.arange(60), rows=60), tmp_path / "open", num_ps)
    assert np.array_equal(by_id(back["t"])[20:], [users[i,] for i in range(20, 60)])
    assert np.array_equal(by_id(back["t"])[:20], by_id(before["t"])[:20])


@pytest.mark.long
def test_files_of_ids_say_which_row_an_id_has(tmp_path) -> None:
    words = [f"w{number}" for number in range(50)]
    (tmp_path / "old.txt").write_text("\n".join(words) + "\n")
    new = [*words[40:], "fresh", *words[:30:2]]
    (tmp_path / "new.txt").write_text("\n".join(new) + "\n")
    names = tmp_path / "names.map"
    old = by_id(trained(Net(np.arange(52), rows=52), tmp_path / "old").values()["t"])

    names.write_text("t = t old_vocab=old.txt new_vocab=new.txt\n")
    _, before, after, _ = warm(Net(np.arange(28), rows=len(new) + 2), tmp_path / "old", 2, names)
    expected = by_id(before["t"]).copy()
    for number, word in enumerate(new):
        if word in words:
            expected[number] = old[words.index(word)]
    expected[-2:] = old[-2:]
    assert np.array_equal(by_id(after["t"]), expected)

    names.write_text("t = t old_vocab=old.txt\n")
    ids = np.array([word.encode() for word in words], object)
    _, _, after, _ = warm(Net(ids, capacity=300), tmp_path / "old", 2, names)
    keys = tf.function(lambda: encode_ids(Table("t", 3, capacity=300), tf.constant(words)))().numpy()
    assert _users(after) == {tuple(keys[i].tolist()): old[i].tolist() for i in range(50)}

    trained(Net(ids, capacity=300), tmp_path / "open", steps=20)
    reader = tf.train.load_checkpoint(str(tmp_path / "open"))
    users = _users({key: reader.get_tensor(key) for key in ("t", "t/keys", "t/used")})
    names.write_text("t = t new_vocab=new.txt\n")
    _, before, after, _ = warm(Net(np.arange(26), rows=len(new)), tmp_path / "open", 2, names)
    row = {word: users[tuple(key.tolist())] for word, key in zip(words, keys, strict=True)}
    expected = [row.get(word, by_id(before["t"])[i].tolist()) for i, word in enumerate(new)]
    assert np.array_equal(by_id(after["t"]), expected)


@pytest.mark.long
def test_files_of_ids_say_which_row_an_id_has_in_a_variable_that_is_no_table(tmp_path) -> None:
    words = [f"w{number}" for number in range(40)]
    (tmp_path / "old.txt").write_text("\n".join(words) + "\n", encoding="utf-8-sig")
    new = [*words[30:], "fresh", *words[:29]]
    (tmp_path / "new.txt").write_text("\n".join(new) + "\n", encoding="utf-8-sig")
    names = tmp_path / "names.map"
    names.write_text("net/w = net/w old_vocab=old.txt new_vocab=new.txt\n", encoding="utf-8-sig")
    old = trained(Net(np.arange(50), rows=50), tmp_path / "old").values()
    _, before, after, found = warm(Net(np.arange(50), rows=50), tmp_path / "old", 2, names)
    for slot in ("", "/Adam", "/Adam_1"):
        rows = [old[f"net/w{slot}"][words.index(w)] if w in words else before[f"net/w{slot}"][10] for w in new]
        assert np.array_equal(after[f"net/w{slot}"], np.stack(rows)), slot
    assert lines_of(found)["net/w"][:5] == ["remapped", "net/w", "net/w", "39", "of"]
    for text, error in (
        ("net/w = net/w old_vocab=old.txt", "net/w has one file of ids: give old_vocab=FILE and new_vocab=FILE"),
        ("net/b = global_step old_vocab=old.txt new_vocab=new.txt", "net/b cannot begin with global_step: dtype int64"),
        (
            "net/b = net/w old_vocab=old.txt new_vocab=new.txt",
            "net/b cannot begin with net/w: files of ids are for rows",
        ),
    ):
        names.write_text(text + "\n")
        with pytest.raises(ConfigError, match=error):
            warm(Net(np.arange(50), rows=50), tmp_path / "old", 2, names)
    (tmp_path / "old.txt").write_text("w1\n", encoding="utf-16")
    names.write_text("net/w = net/w old_vocab=old.txt new_vocab=new.txt\n")
    with pytest.raises(ConfigError, match=r"old\.txt is a text in UTF-16: save it as UTF-8"):
        warm(Net(np.arange(50), rows=50), tmp_path / "old", 2, names)


@pytest.mark.parametrize("path", ["model.ckpt-5", "model.ckpt-?????-of-00002", "."])
def test_a_checkpoint_of_tensorflow_s_first_format_is_taken(path: str, tmp_path: pathlib.Path) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        with tf.device("/cpu:0"):
            w = v1.get_variable("net/w", [40, DIMENSION])
        with tf.device("/job:localhost/cpu:0"):
            b = v1.get_variable("net/b", [4], partitioner=v1.fixed_size_partitioner(2))
        v1.get_variable("t", [50, DIMENSION])
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver(write_version=v1.train.SaverDef.V1, sharded="?" in path)
        saver.save(session, str(tmp_path / "model.ckpt"), None if "?" in path else 5)
        w, b = session.run(w), np.concatenate(session.run(list(b)))
    if "?" in path:
        (shard,) = tmp_path.glob("model.ckpt-00000-of-*")
        path = f"model.ckpt-?????-of-{shard.name[-5:]}"
    found = str(tmp_path / path)
    _, _, after, _ = warm(Net(np.arange(50), rows=50), found, 2)
    assert np.array_equal(after["net/w"], w) and np.array_equal(after["net/b"], b)
    make_delta(open_saved(found), open_saved(str(write_checkpoint(tmp_path / "new", w))), str(tmp_path / "d"))
    result = apply_deltas(open_saved(found), [str(tmp_path / "d")], str(tmp_path / "result"))
    assert np.array_equal(tf.train.load_checkpoint(result.values.path).get_tensor("net/w"), w + 1)
    with pytest.raises(ConfigError, match="is neither a checkpoint nor a SavedModel"):
        open_saved(__file__)


def write_checkpoint(directory: pathlib.Path, w: np.ndarray) -> pathlib.Path:
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("net/w", initializer=w + 1)
        v1.get_variable("net/b", initializer=np.zeros([4], np.float32))
        session.run(v1.global_variables_initializer())
        return pathlib.Path(v1.train.Saver().save(session, str(directory / "model.ckpt"), 6))


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.usual(1)
def test_a_checkpoint_of_tensorflow_1_with_partitioned_slots(separate, tmp_path) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope("", partitioner=v1.fixed_size_partitioner(3)):
            table = v1.get_variable("t", [50, DIMENSION])
            w = v1.get_variable("net/w", [40, DIMENSION])
        b = v1.get_variable("net/b", [4])
        loss = tf.reduce_sum(tf.concat(list(table), 0) ** 2) + tf.reduce_sum(tf.concat(list(w), 0) ** 2)
        train = v1.train.AdamOptimizer(0.1).minimize(
            loss + tf.reduce_sum(b**2), global_step=v1.train.create_global_step()
        )
        session.run(v1.global_variables_initializer())
        for _ in range(5):
            session.run(train)
        every = {v.op.name: v for v in v1.global_variables()}
        values = session.run(every)
        v1.train.Saver(every if separate else None).save(session, str(tmp_path / "model.ckpt"), 5)
    assert "t/part_1/Adam" in values

    def whole(name: str, slot: str = "") -> np.ndarray:
        return np.concatenate([values[f"{name}/part_{part}{slot}"] for part in range(3)])

    _, before, after, _ = warm(Net(np.arange(70), rows=70), tmp_path, 2, keeps_step=True)
    for slot in ("", "/Adam", "/Adam_1"):
        assert np.array_equal(by_id(after[f"t{slot}"])[:50], whole("t", slot))
        assert np.array_equal(by_id(after[f"t{slot}"])[50:], by_id(before[f"t{slot}"])[50:])
        assert np.array_equal(after[f"net/w{slot}"], whole("net/w", slot))
        assert np.array_equal(after[f"net/b{slot}"], values[f"net/b{slot}"])
    assert after["beta1_power"] == values["beta1_power"] and after["global_step"] == 5


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("net/ww = net/w", "names.map:1: the model has no variable net/ww: the nearest names are net/w"),
        ("net/w = net/v", "names.map:1: .* has no variable net/v: the nearest names are net/w"),
        ("nets/ = net/", "the model has no scope nets/: the nearest names are net/"),
        ("net/b = net/w", r"names.map:1: net/b cannot begin with net/w: shape \[40, 3\], here \[4\]"),
        ("t = net/w old_vocab=none new_vocab=none", "none cannot be read"),
        ("net/w", "names.map:1: net/w is not valid: use NAME = NAME_IN_THE_CHECKPOINT"),
        ("net/w = net/w\nnet/w =", "names.map:2: net/w is in .*names.map:1 too"),
        ("net/ = t", "a scope ends with a slash on both sides"),
        ("t =\nnet/ =", "has no variable that fits one of the model"),
    ],
)  # fmt: skip
def test_a_wrong_line_of_the_map_is_an_error_of_one_line(text, error, tmp_path) -> None:
    trained(Net(np.arange(50), rows=50), tmp_path / "old", steps=1)
    (tmp_path / "names.map").write_text(text + "\n")
    with pytest.raises(ConfigError, match=error) as caught:
        warm(Net(np.arange(50), rows=50), tmp_path / "old", names=tmp_path / "names.map")
    assert "\n" not in str(caught.value)
