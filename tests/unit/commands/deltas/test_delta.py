"""The verbs `delta` and `apply`: what they print, and their exit codes."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from ps_train.base.console import Console
from ps_train.commands.deltas.delta import apply, delta
from ps_train.saved.values import Writer


def made(path: pathlib.Path, **values: object) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = Writer(str(path))
    for key, value in values.items():
        writer.add(key, np.asarray(value))
    writer.close()
    return str(path)


def run(verb: Callable[[Sequence[str], Console], int], *arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return verb(arguments, Console(out, err)), out.getvalue(), err.getvalue()


def test_what_has_changed_is_counted_and_given_back(tmp_path: pathlib.Path) -> None:
    table = np.arange(80.0).reshape(40, 2)
    old = made(tmp_path / "old" / "model.ckpt-1", table=table, rate=0.5, global_step=1)
    table[3] += 1
    new = made(tmp_path / "new" / "model.ckpt-7", table=table, rate=0.5, global_step=7)
    folder = str(tmp_path / "delta")
    code, out, _ = run(delta, old, new, f"--to={folder}")
    assert code == 0 and "table: 1 of 40 rows\n" in out and "global_step: changed\n" in out and "rate" not in out
    assert "delta from step 1, hash " in out and "to step 7, hash " in out and out.endswith(f"in {folder}\n")
    code, out, _ = run(apply, str(tmp_path / "old"), folder, f"--to={tmp_path / 'result'}")
    assert code == 0 and out.endswith(f"are {tmp_path / 'result' / 'model.ckpt-7'}\n")


@pytest.mark.parametrize(
    ("verb", "arguments", "words"),
    [
        (delta, ["{old}", "--to=x"], "NEW"),
        (delta, ["{old}", "{old}"], "--to"),
        (delta, ["{old}", "nowhere", "--to=x"], "nowhere is neither a checkpoint nor a SavedModel"),
        (delta, ["{old}", "{empty}", "--to=x"], "has neither a checkpoint nor saved_model.pb"),
        (delta, ["{old}", "{old}", "--to={old}.index"], "is there already: use another directory"),
        (delta, ["{old}", "{old}", "--to=/proc/x/y"], "cannot be made"),
        (delta, ["{old}", "{old}", "--to=s3://b/x"], "to=s3://b/x is not a local path"),
        (apply, ["{old}", "{empty}", "--to=x"], "is not a delta"),
        (apply, ["{old}", "s3://b/x", "--to=x"], "deltas=s3://b/x is not a local path"),
        (apply, ["{old}", "--to=x"], "DELTA"),
    ],
)
def test_a_mistake_is_one_line(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: Callable[[Sequence[str], Console], int],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    old = made(tmp_path / "old" / "model.ckpt-1", global_step=1)
    (tmp_path / "empty").mkdir()
    names = {"old": old, "empty": str(tmp_path / "empty")}
    code, out, err = run(verb, *[argument.format(**names) for argument in arguments])
    assert (code, out, err.count("\n")) == (2, "", 1) and words in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "old"]


def test_two_equal_models_have_no_delta(tmp_path: pathlib.Path) -> None:
    paths = [made(tmp_path / str(n) / "model.ckpt-1", table=np.ones([4, 2]), global_step=1) for n in range(2)]
    code, out, err = run(delta, *paths, f"--to={tmp_path / 'd'}")
    assert (code, out, err.count("\n")) == (2, "", 1) and "are equal, bit for bit: there is no delta to write" in err
    assert not (tmp_path / "d").exists()


def test_a_delta_between_different_models_is_refused_or_named(tmp_path: pathlib.Path) -> None:
    table = np.arange(8.0).reshape(4, 2)
    old = made(tmp_path / "old" / "model.ckpt-1", table=table, rate=0.5, global_step=1)
    for number, values in enumerate(({"words": table}, {"table": np.ones([5, 2])}, {"table": table.astype("f4")})):
        other = made(tmp_path / f"other{number}" / "model.ckpt-1", **values, global_step=1)
        code, out, err = run(delta, old, other, f"--to={tmp_path / 'd'}")
        assert (code, out, err.count("\n")) == (2, "", 1) and "are of different models: no variable has the same" in err
    grown = made(tmp_path / "grown" / "model.ckpt-1", table=np.ones([5, 2]), rate=0.5, global_step=2)
    code, out, _ = run(delta, old, grown, f"--to={tmp_path / 'grows'}")
    assert code == 0 and "note: 1 variables are not of the same shape and dtype in both, such as table: served" in out
    trained = made(tmp_path / "trained" / "model.ckpt-1", table=table + 1, rate=0.7, global_step=2)
    code, out, _ = run(delta, old, trained, f"--to={tmp_path / 'trained_delta'}")
    assert code == 0 and "note: every row of every variable differs (is it of another training?)" in out
    same = made(tmp_path / "same" / "model.ckpt-1", table=table + 1, rate=0.5, global_step=2)
    assert "note" not in run(delta, old, same, f"--to={tmp_path / 'same_delta'}")[1]
