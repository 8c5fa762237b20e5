"""Deltas of random histories lead to the same bits, and a wrong chain is refused by name."""

from __future__ import annotations

import json
import pathlib
import random
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError, DamagedCheckpointError
from ps_train.engine.run_directory.checkpoint_contents import CheckpointValues
from ps_train.saved import values as saved_module
from ps_train.saved.deltas.applying import apply_deltas
from ps_train.saved.deltas.difference import make_delta
from ps_train.saved.values import Writer, open_saved

DTYPES = ["float32", "float64", "bfloat16", "float16", "int64", "int8", "bool", "string", "uint16"]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_module, "CHUNK_BYTES", 200)


def value_of(chance: random.Random, shape: list[int], dtype: str) -> Any:
    numbers = np.random.RandomState(chance.randrange(1 << 30))
    if dtype == "string":
        return np.array(
            [bytes([chance.randrange(256)] * chance.randrange(4)) for _ in range(int(np.prod(shape)))], object
        ).reshape(shape)
    size = int(np.prod(shape)) * tf.as_dtype(dtype).size
    if dtype == "bool":
        return numbers.randint(0, 2, shape).astype(bool)
    return np.frombuffer(numbers.bytes(size), tf.as_dtype(dtype).as_numpy_dtype).reshape(shape)  # NaN too


def changed(chance: random.Random, state: dict[str, Any]) -> dict[str, Any]:
    """Returns the next state: some rows change, and now and then a variable comes, goes or has another shape."""
    found = dict(state)
    for key in list(found):
        array = found[key].copy()
        if array.ndim and len(array) and chance.random() < 0.8:
            rows = chance.sample(range(len(array)), chance.randint(0, max(1, len(array) // 3)))
            array[rows] = value_of(chance, list(array.shape), kind_of(array))[rows]
        elif not array.ndim and chance.random() < 0.5:
            array = value_of(chance, [], kind_of(array))
        found[key] = array
    if chance.random() < 0.4:
        found.pop(chance.choice(sorted(found)))
    if chance.random() < 0.6:
        shape = chance.choice([[], [0, 3], [7], [40, 3], [33, 2, 2], [5, 0]])
        found[f"v{chance.randrange(8)}"] = value_of(chance, shape, chance.choice(DTYPES))
    found["global_step"] = np.int64(int(found.get("global_step", 0)) + chance.randint(1, 9))
    return found


def kind_of(array: Any) -> str:
    return "string" if array.dtype == object else array.dtype.name


def written(path: pathlib.Path, state: dict[str, Any]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = Writer(str(path))
    for key, array in state.items():
        writer.add(key, np.asarray(array))
    writer.close()
    return str(path)


def bits(path: str) -> dict[str, Any]:
    values = CheckpointValues(path)
    reader = tf.train.load_checkpoint(path)
    arrays = {key: np.asarray(reader.get_tensor(key)) for key in values.kinds}
    return {
        key: (kind, arrays[key].tolist() if kind[1] == tf.string else arrays[key].tobytes())
        for key, kind in values.kinds.items()
    }


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.usual(3)
def test_a_base_and_deltas_are_the_next_checkpoint_in_every_bit(tmp_path: pathlib.Path, seed: int) -> None:
    chance = random.Random(seed)
    state: dict[str, Any] = {"global_step": np.int64(0)}
    for number in range(6):
        state[f"v{number}"] = value_of(
            chance, chance.choice([[], [50, 3], [9], [64, 2, 2], [3, 100]]), chance.choice(DTYPES)
        )
    paths, deltas = [written(tmp_path / "0" / "model.ckpt-0", state)], []
    for number in range(1, 5):
        state = changed(chance, state)
        paths.append(written(tmp_path / str(number) / f"model.ckpt-{number}", state))
        deltas.append(str(tmp_path / f"delta{number}"))
        make_delta(open_saved(paths[-2]), open_saved(paths[-1]), deltas[-1])
    for begin in range(4):
        for end in range(begin + 1, 5):
            target = tmp_path / f"applied{begin}-{end}"
            result = apply_deltas(open_saved(paths[begin]), deltas[begin:end], str(target))
            assert bits(result.values.path) == bits(paths[end])
            assert tf.train.latest_checkpoint(str(target)) == result.values.path


def history(tmp_path: pathlib.Path) -> tuple[list[str], list[str]]:
    table = np.arange(120, dtype=np.float32).reshape(60, 2)
    paths, deltas = [], []
    for number in range(4):
        table = table.copy()
        table[number * 7] += 1
        paths.append(written(tmp_path / f"c{number}" / "model.ckpt", {"table": table, "global_step": np.int64(number)}))
        if number:
            deltas.append(str(tmp_path / f"d{number}"))
            make_delta(open_saved(paths[-2]), open_saved(paths[-1]), deltas[-1])
    return paths, deltas


def test_a_chain_that_is_wrong_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    paths, (one, two, three) = history(tmp_path)
    other = written(
        tmp_path / "other" / "model.ckpt", {"table": np.zeros([60, 2], np.float32), "global_step": np.int64(0)}
    )
    cases = [
        (paths[0], [one, three], f"{three} does not follow {one}: it begins at step 2"),
        (paths[0], [one, one, two], f"{one} is given twice"),
        (paths[0], [two, one, three], f"after {two} comes {three}, not {one}"),
        (paths[0], [two], f"{two} leads from step 1"),
        (paths[1], [one], f"{paths[1]} is what {one} leads to"),
        (paths[1], [one, two], f"{paths[1]} is what {one} leads to"),
        (other, [one], f"{one} leads from step 0"),
        (paths[0], [str(tmp_path / "none")], "none is not a delta"),
    ]
    for base, deltas, words in cases:
        with pytest.raises(ConfigError) as caught:
            apply_deltas(open_saved(base), deltas, str(tmp_path / "result"))
        assert words in str(caught.value) and "\n" not in str(caught.value)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("result")]


def test_a_damaged_delta_is_never_applied(tmp_path: pathlib.Path) -> None:
    paths, (one, *_) = history(tmp_path)
    (file,) = pathlib.Path(one).glob("values.data-*")
    content = file.read_bytes()
    for place in range(len(content)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises((DamagedCheckpointError, ConfigError)):
            apply_deltas(open_saved(paths[0]), [one], str(tmp_path / "result"))
    file.write_bytes(content)
    manifest = pathlib.Path(one, "delta.json")
    found = json.loads(manifest.read_text())
    found["entries"] = found["entries"][:1]
    manifest.write_text(json.dumps(found))
    with pytest.raises(DamagedCheckpointError, match="another hash"):
        apply_deltas(open_saved(paths[0]), [one], str(tmp_path / "result"))


def test_only_the_rows_that_have_changed_are_in_it(tmp_path: pathlib.Path) -> None:
    _, deltas = history(tmp_path)
    values = CheckpointValues(f"{deltas[0]}/values")
    shapes = {key: shape for key, (shape, _) in values.kinds.items()}
    assert sorted(map(tuple, shapes.values())) == [(), (1,), (1, 2)]


def test_the_ids_that_left_an_open_vocabulary_are_named(tmp_path: pathlib.Path) -> None:
    keys = np.arange(40, dtype=np.int64).reshape(40, 1) + 1000
    used = np.ones([40, 3], np.int64)
    before = {"users/keys": keys, "users/used": used, "users/clock": np.array([5])}
    after = {name: array.copy() for name, array in before.items()}
    after["users/keys"][7] = 2000  # evicted, and the row is of another id
    after["users/used"][8, 0] = 0  # evicted
    after["users/keys"][[20, 21]] = keys[[21, 20]]  # they have changed their rows
    old, new = (written(tmp_path / str(n) / "m", state) for n, state in enumerate((before, after)))
    manifest = make_delta(open_saved(old), open_saved(new), str(tmp_path / "d"))
    assert (manifest.vocabularies["users"].added, manifest.vocabularies["users"].removed) == (1, 2)
    removed = tf.train.load_checkpoint(str(tmp_path / "d" / "values")).get_tensor("removed/users")
    assert sorted(removed.ravel()) == [1007, 1008]


def test_the_parts_of_a_variable_are_its_rows() -> None:
    parts = saved_module.parts_of("v", ([40, 3], tf.float32))
    assert [(part.begin, part.rows) for part in parts] == [(0, 16), (16, 16), (32, 8)]
