"""The chain of a run's deltas: it goes on after any end of its process."""

from __future__ import annotations

import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError
from ps_train.saved.deltas import chain as chains
from ps_train.saved.deltas.applying import apply_deltas
from ps_train.saved.deltas.chain import DeltaChain
from ps_train.saved.deltas.manifest import read_manifest
from ps_train.saved.deltas.way import Link, way
from ps_train.saved.values import open_saved

_random = np.random.default_rng(2)
VALUES = {"table": _random.normal(size=(200, 3)).astype(np.float32)}


def save(directory: pathlib.Path, step: int) -> np.ndarray:
    """Writes a checkpoint in which some rows differ from the one before, and removes that one."""
    VALUES["table"][_random.integers(200, size=5)] += 1
    for old in directory.glob("model.ckpt-*"):
        old.unlink()
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("table", initializer=VALUES["table"])
        v1.get_variable("global_step", initializer=np.int64(step))
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(directory / "model.ckpt"), step, write_meta_graph=False)
    return VALUES["table"].copy()


def applied(directory: pathlib.Path) -> np.ndarray:
    """What the base and all deltas of a chain give."""
    deltas = sorted(str(path) for path in (directory / "deltas").glob("0*"))
    target = directory / "applied"
    shutil.rmtree(target, ignore_errors=True)
    apply_deltas(open_saved(str(directory / "deltas/base")), deltas, str(target))
    return tf.train.load_checkpoint(str(target)).get_tensor("table")


def test_a_chain_that_leads_back_is_followed_from_all_its_checkpoints(tmp_path: pathlib.Path) -> None:
    directory, copies = tmp_path / "run", tmp_path / "copies"
    directory.mkdir()
    copies.mkdir()
    chain, expected = DeltaChain(str(directory)), {}
    for step in (1, 5, 9):
        expected[step] = save(directory, step)
        assert chain.extend() and not chain.extend()
        for path in directory.glob("model.ckpt-*"):
            shutil.copy(path, copies)
    (directory / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-5"\n')
    for path in directory.glob("model.ckpt-9.*"):
        path.unlink()
    for path in copies.glob("model.ckpt-5.*"):
        shutil.copy(path, directory)
    chain.close()
    chain = DeltaChain(str(directory))  # the run has fallen back to step 5
    assert chain.extend().endswith("000003") and np.array_equal(applied(directory), expected[5])
    for path in copies.glob("model.ckpt-5.*"):  # the same checkpoint is written again
        (directory / path.name).unlink()
        shutil.copy(path, directory)
    assert chain.extend() == "" and chain.last == 3
    expected[12] = save(directory, 12)
    assert chain.extend().endswith("000004") and np.array_equal(applied(directory), expected[12])
    manifests = [read_manifest(str(path)) for path in sorted((directory / "deltas").glob("0*"))]
    assert [one.next.global_step for one in manifests] == [5, 9, 5, 12]
    links = [Link(str(number), one.base.hash, one.next.hash, one.made) for number, one in enumerate(manifests)]
    for one in manifests:
        found = way(one.base.hash, links)
        assert found[-1].next == manifests[-1].next.hash and way(found[-1].next, links) == []
    chain.close()


@pytest.mark.parametrize("kind", ["cut", "flipped", "another"])
def test_a_damaged_kept_checkpoint_is_made_again_from_the_chain(tmp_path: pathlib.Path, kind: str) -> None:
    chain, expected = DeltaChain(str(tmp_path)), {}
    for step in (1, 5, 9):
        expected[step] = save(tmp_path, step)
        assert chain.extend()
    chain.close()
    (kept,) = (tmp_path / "deltas" / ".checkpoints" / "000002").glob("*.data-*")
    content = kept.read_bytes()
    if kind == "cut":
        kept.write_bytes(content[: len(content) // 2])
    elif kind == "flipped":
        kept.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    else:  # whole, and of another content
        save(tmp_path, 9)
        for path in tmp_path.glob("model.ckpt-9.*"):
            (kept.parent / path.name).unlink()
            shutil.copy(path, kept.parent)
    expected[12] = save(tmp_path, 12)
    chain = DeltaChain(str(tmp_path))
    assert chain.extend().endswith("000003") and np.array_equal(applied(tmp_path), expected[12])
    manifests = [read_manifest(str(path)) for path in sorted((tmp_path / "deltas").glob("0*"))]
    assert [one.next.hash for one in manifests[:-1]] == [one.base.hash for one in manifests[1:]]
    chain.close()


def test_a_chain_goes_on_after_any_end_of_its_process(tmp_path, monkeypatch) -> None:
    chain = DeltaChain(str(tmp_path))
    assert chain.extend() == "" and chain.last == -1
    save(tmp_path, 1)
    assert chain.extend().endswith("base") and chain.extend() == ""
    expected = save(tmp_path, 5)
    assert chain.extend().endswith("000001") and chain.extend() == ""
    assert np.array_equal(applied(tmp_path), expected)
    chain.close()

    class Killed(BaseException):
        pass

    def killed(*_args):
        raise Killed

    for name in ("make_delta", "_keep_only"):  # before a delta has its name, and after it
        expected = save(tmp_path, 9)
        chain = DeltaChain(str(tmp_path))
        before = chain.last
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(*((chains, name) if name == "make_delta" else (DeltaChain, name)), killed)
            chain.extend()
        chain.close()
        (tmp_path / "deltas" / f"{before + 1:06}.1.new").mkdir()
        chain = DeltaChain(str(tmp_path))
        assert chain.last == before + (name == "_keep_only")
        assert bool(chain.extend()) == (name == "make_delta")
        chain.close()
        assert np.array_equal(applied(tmp_path), expected)
        assert not list((tmp_path / "deltas").glob("*.new"))

    shutil.rmtree(tmp_path / "deltas/.checkpoints")
    expected = save(tmp_path, 3)  # a run that was rolled back
    chain = DeltaChain(str(tmp_path))
    chain.extend()
    chain.close()
    assert np.array_equal(applied(tmp_path), expected)
    manifests = [read_manifest(str(path)) for path in sorted((tmp_path / "deltas").glob("0*"))]
    assert [one.next.global_step for one in manifests] == [5, 9, 9, 3]
    assert max(sum(entry.rows for entry in one.entries) for one in manifests) <= 6

    shutil.rmtree(tmp_path / "deltas/.checkpoints")
    shutil.rmtree(tmp_path / "deltas/000002")
    with pytest.raises(ConfigError, match="to begin another chain"):
        DeltaChain(str(tmp_path))
