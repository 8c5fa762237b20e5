"""The verb `compare`: its numbers, slices and mistakes, with files and with a model's own data."""

from __future__ import annotations

import io
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, Model
from ps_train.base.console import Console
from ps_train.commands.scoring.compare import compare
from ps_train.commands.scoring.predict import predict
from ps_train.saved.scoring.file_rows import ExampleRows
from ps_train.saved.scoring.statistics import Pair
from tests.support.saved.exported_models import write_export

COUNT = 300


class Clicks(Model):
    """Its data are `made()`."""

    def data(self, split: str, data_dir: str):
        x, labels, _ = made()
        return Arrays({"x": x}, labels) if split == "test" else None

    def forward(self, features, training):
        return features["x"]

    def loss(self, outputs, labels):
        return tf.reduce_mean(outputs)


def made() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    chance = np.random.default_rng(5)
    x = chance.normal(size=COUNT).astype(np.float32)
    labels = (chance.random(COUNT) < 1 / (1 + np.exp(-x))).astype(np.float32)
    return x, labels, chance.choice(["de", "fr", "it"], COUNT, p=[0.5, 0.3, 0.2])


def probabilities(x: np.ndarray, slope: float) -> np.ndarray:
    return 1 / (1 + np.exp(-slope * x))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("compare")
    for name, slope in (("a", 0.1), ("b", 1.0)):
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, [None])
            outputs = {"probabilities": tf.sigmoid(slope * x), "logits": slope * x}
            builder = v1.saved_model.Builder(str(folder / name))
            signature = v1.saved_model.predict_signature_def({"x": x}, outputs)
            builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
            builder.save()
    x, labels, country = made()
    lines = [f"{a},{int(b)},{c}" for a, b, c in zip(x.tolist(), labels, country, strict=True)]
    (folder / "data.csv").write_text("\n".join(["x,click,country", *lines]) + "\n")
    return folder


def run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return compare(arguments, Console(out, err)), out.getvalue(), err.getvalue()


def test_the_numbers_of_all_rows_and_of_slices(folder: pathlib.Path) -> None:
    models = [str(folder / "a"), str(folder / "b")]
    report = folder / "report.json"
    options = [f"--data={folder / 'data.csv'}", "--label=click", "--by=country", "--most_slices=2"]
    code, out, err = run(*models, *options, "--resamples=50", "--seed=3", f"--json={report}")
    assert (code, err) == (0, "")
    assert "50 resamples, seed 3" in out and "country=de" in out and "country=(others)" in out
    found = json.loads(report.read_text())
    assert found["rows"] == COUNT and found["seed"] == 3
    x, labels, country = made()
    slices = {"all rows": np.full(COUNT, True), "country=de": country == "de", "country=fr": country == "fr"}
    slices["country=(others)"] = country == "it"
    assert list(found["slices"]) == list(slices)
    for name, rows in slices.items():
        expected = Pair(labels[rows], *(probabilities(x[rows], slope) for slope in (0.1, 1.0))).metrics()
        numbers = found["slices"][name]
        assert numbers["rows"] == rows.sum()
        for metric, (first, second) in expected.items():
            assert (numbers[metric]["a"], numbers[metric]["b"]) == pytest.approx((first, second), abs=1e-6)
            assert numbers[metric]["low"] <= numbers[metric]["difference"] <= numbers[metric]["high"]
    assert found["slices"]["all rows"]["auc"]["difference"] == pytest.approx(0, abs=1e-6), "the order is the same"
    assert found["slices"]["all rows"]["log_loss"]["high"] < 0, "B is better beyond doubt"


def test_data_that_a_model_reads_give_the_same(folder: pathlib.Path) -> None:
    models, here = [str(folder / "a"), str(folder / "b")], "--model=tests.unit.commands.scoring.test_compare:Clicks"
    reports = []
    for name, options in (
        ("file", [f"--data={folder / 'data.csv'}", "--label=click"]),
        ("model", ["--data=any", here]),
    ):
        reports.append(folder / f"{name}.json")
        code, _, err = run(*models, *options, "--resamples=5", f"--json={reports[-1]}")
        assert (code, err) == (0, "")
    first, second = (json.loads(path.read_text())["slices"]["all rows"] for path in reports)
    for metric in ("auc", "log_loss", "calibration"):
        assert first[metric] == pytest.approx(second[metric], abs=1e-6)
    out, err = io.StringIO(), io.StringIO()
    arguments = [f"--export_dir={folder / 'b'}", "--data=any", here, f"--to={folder / 'scored.csv'}"]
    assert predict(arguments, Console(out, err)) == 0, err.getvalue()
    lines = (folder / "scored.csv").read_text().splitlines()
    assert lines[0] == "label,logits,probabilities" and len(lines) == COUNT + 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--label=no"], "the files have no column 'no': they have x, click, country"),
        (["--label=country"], "the label country has the value "),
        (["--label=x"], "labels are 0 or 1"),
        (["--label=click", "--output=logits"], "output logits of"),
        (["--label=click", "--output=no"], "has the outputs logits, probabilities: name the"),
        (["--label=click", "--by=no"], "no column 'no'"),
        (["--label=click", "--json=/no/file"], "json=/no/file cannot be written"),
        (["--label=click", "--seed=-1"], "-1 is not a whole number of at least 0"),
        (["--label=click", "--model_arg=a=b"], "--model_arg is for --model"),
        (["--model=tests.no:Model"], "tests.no"),
        (["--model=tests.unit.commands.scoring.test_compare:Clicks", "--split=train"], "has no examples"),
    ],
)
def test_a_mistake_is_one_line(folder: pathlib.Path, options: list[str], words: str) -> None:
    code, _, err = run(str(folder / "a"), str(folder / "b"), f"--data={folder / 'data.csv'}", *options, "--resamples=2")
    assert (code, err.count("\n")) == (2, 1) and words in err, err


def test_a_model_that_does_not_fit_is_refused_before_the_other_has_scored(
    folder: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(tf.train.Example().SerializeToString())
    scored: list[int] = []
    monkeypatch.setattr(ExampleRows, "predictions", lambda rows, exported: scored.append(len(rows)))
    export, other = write_export(tmp_path / "export"), str(folder / "b")
    for models, options, words in (
        ((export, other), ["--output=score"], f"{other} has the outputs logits, probabilities: name the"),
        ((other, other), [], f"{other} has no signature for tf.train.Examples: give data with columns"),
    ):
        code, _, err = run(*models, f"--data={path}", *options)
        assert (code, err.count("\n")) == (2, 1) and words in err and not scored, err


def test_slices_of_any_bytes_and_of_a_value_named_as_the_rest_add_up(
    folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    x, labels, _ = made()
    values = [b"\xff", b"\xff\0", b"(others)", b"a", b"a\0", b"\xfe", None]
    by = [values[row % 7 if row % 5 else 2] for row in range(COUNT)]
    pq.write_table(pa.table({"x": x, "click": labels, "by": pa.array(by, pa.binary())}), tmp_path / "a.parquet")
    options = [f"--data={tmp_path / 'a.parquet'}", "--label=click", "--by=by", "--most_slices=4", "--resamples=2"]
    code, _, err = run(str(folder / "a"), str(folder / "b"), *options, f"--json={tmp_path / 'r.json'}")
    assert (code, err) == (0, "")
    found = {name: one["rows"] for name, one in json.loads((tmp_path / "r.json").read_text())["slices"].items()}
    assert found.pop("all rows") == COUNT == sum(found.values())
    assert len(found) == 5 and found["by=(others)'"] == by.count(b"(others)")
    frequent = sorted({value or b"" for value in by}, key=lambda value: (-by.count(value or None), value))[4:]
    assert found["by=(others)"] == sum(by.count(value or None) for value in frequent)
