"""The verb `predict`: every format of data and result, against numpy; order, resumption, and mistakes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.console import Console
from ps_train.commands.scoring.predict import predict
from ps_train.saved.scoring import resumable
from tests.support.long import long
from tests.support.saved.exported_models import score, write_export

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

COUNT = 230


def run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return predict(arguments, Console(out, err)), out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_export(tmp_path_factory.mktemp("models") / "export" / "1")


def columns(count: int = COUNT) -> dict[str, list]:
    chance = np.random.default_rng(3)
    return {
        "key": list(range(count)),
        "price": chance.normal(size=count).astype(np.float32).tolist(),
        "ids": [chance.integers(0, 9, size).tolist() for size in chance.integers(0, 4, count)],
        "name": ["n" * size for size in chance.integers(1, 6, count)],
    }


def example(**record) -> bytes:
    features = tf.train.Features()
    for name, value in record.items():
        values = value if isinstance(value, list) else [value]
        if name == "price":
            features.feature[name].float_list.value.extend(values)
        elif name == "name":
            features.feature[name].bytes_list.value.extend(one.encode() for one in values)
        else:
            features.feature[name].int64_list.value.extend(values)
    return tf.train.Example(features=features).SerializeToString()


def write(folder: pathlib.Path, kind: str, data: dict[str, list]) -> str:
    """Writes the data into two files; returns their pattern."""
    folder.mkdir(exist_ok=True)
    records = [dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)]
    for number, some in enumerate((records[:100], records[100:])):
        path = folder / f"data-{number}.{kind}"
        if kind == "parquet":
            pq.write_table(pa.Table.from_pylist(some), path, row_group_size=40)
        elif kind.startswith("tfrecord"):
            options = tf.io.TFRecordOptions(compression_type="GZIP") if kind.endswith("gz") else None
            with tf.io.TFRecordWriter(str(path), options) as writer:
                for record in some:
                    writer.write(example(**record))
        elif kind == "jsonl":
            path.write_text("".join(json.dumps(record) + "\n" for record in some))
        else:
            text = io.StringIO()
            writer = csv.writer(text, delimiter={"c": ",", "t": "\t"}[kind[0]])
            writer.writerow(data)
            writer.writerows([[*r.values()][:2] + ["|".join(map(str, r["ids"])), r["name"]] for r in some])
            path.write_bytes(
                gzip.compress(text.getvalue().encode()) if kind.endswith("gz") else text.getvalue().encode()
            )
    return str(folder / f"data-*.{kind}")


def read(path: pathlib.Path) -> dict[str, list]:
    """Returns the columns of a result."""
    kind = path.name.partition(".")[2]
    if kind == "parquet":
        return pq.read_table(path).to_pydict()
    if kind == "tfrecord":
        records = []
        for one in tf.data.TFRecordDataset(str(path)):
            features = tf.train.Example.FromString(one.numpy()).features.feature
            lists = {name: list(getattr(some, some.WhichOneof("kind")).value) for name, some in features.items()}
            lists["name"] = [name.decode() for name in lists["name"]]
            records.append({n: v if n in ("ids", "pair") else v[0] for n, v in lists.items()})
    elif kind == "jsonl":
        records = [json.loads(line) for line in path.read_text().splitlines()]
        records = [{**one, "ids": one["ids"] if isinstance(one["ids"], list) else [one["ids"]]} for one in records]
    else:
        text = (gzip.decompress(path.read_bytes()) if kind.endswith("gz") else path.read_bytes()).decode()
        records = list(csv.DictReader(io.StringIO(text), delimiter="\t" if kind[0] == "t" else ","))
        for one in records:
            one |= {name: [float(x) for x in one[name].split("|") if x] for name in ("ids", "pair")}
            one |= {"key": int(one["key"]), "score": float(one["score"]), "price": float(one["price"])}
    return {name: [one[name] for one in records] for name in records[0]}


CASES = [
    ("parquet", "parquet"), ("parquet", "csv"), ("parquet", "tfrecord"), ("tfrecord", "tfrecord"),
    ("tfrecord", "parquet"), ("tfrecords.gz", "jsonl"), ("csv", "csv"), ("tsv.gz", "parquet"), ("csv", "tsv.gz"),
    ("jsonl", "jsonl"), ("jsonl", "parquet"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "result"), [CASES[0], *(long(*case) for case in CASES[1:])])
def test_each_format_has_the_columns_and_the_predictions_in_order(
    tmp_path: pathlib.Path, export: str, kind: str, result: str
) -> None:
    data = columns()
    target = tmp_path / f"out.{result}"
    arguments = [f"--export_dir={export}", f"--data={write(tmp_path / 'data', kind, data)}", f"--to={target}"]
    if kind[:3] in ("csv", "tsv"):
        arguments.append("--types=key=int64")
    code, out, err = run(*arguments, "--batch_size=32")
    assert (code, err) == (0, "") and f"{COUNT} rows in " in out
    found, expected = read(target), score(data["price"], data["ids"], data["name"])
    assert found["key"] == data["key"] and found["name"] == data["name"]
    np.testing.assert_allclose(np.array(found["price"], np.float64), data["price"], rtol=1e-6)
    if kind[:3] in ("csv", "tsv") and result == "parquet":  # a cell is carried as the text that it is
        found["ids"] = [[int(one) for one in (text or "").split("|") if one] for text in found["ids"]]
    if not (result in ("csv", "tsv.gz") and kind == "jsonl"):
        assert [list(some or []) for some in found["ids"] if some not in ([None], None)] == [
            some for some, got in zip(data["ids"], found["ids"], strict=True) if got not in ([None], None)
        ]
    np.testing.assert_allclose(found["score"], expected, rtol=1e-5)
    np.testing.assert_allclose(found["pair"], np.stack([expected, -expected], 1), rtol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", target.name]


@pytest.mark.long
def test_the_same_command_goes_on_after_sigkill_with_any_number_of_processes(
    tmp_path: pathlib.Path, export: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = write(tmp_path / "data", "parquet", columns())
    arguments = [f"--export_dir={export}", f"--data={pattern}", "--batch_size=16"]
    monkeypatch.setattr(resumable, "_CHUNK_ROWS", 32)  # a part has several chunks
    assert run(*arguments, f"--to={tmp_path / 'whole.parquet'}")[0] == 0
    whole, target = (tmp_path / "whole.parquet").read_bytes(), tmp_path / "out.parquet"
    program = (
        "import os, signal, sys\n"
        "from ps_train.base.console import Console\n"
        "from ps_train.commands.scoring import predict\n"
        "from ps_train.saved.scoring import resumable\n"
        "resumable._CHUNK_ROWS = 32\n"
        "rename, left = os.replace, [int(sys.argv.pop(1))]\n"
        "def counted(*paths):\n"
        "    left[0] -= 1\n"
        "    if left[0] < 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    rename(*paths)\n"
        "os.replace = counted\n"
        "sys.exit(predict.predict(sys.argv[1:], Console(sys.stdout, sys.stderr)))\n"
    )
    command = [*arguments, f"--to={target}"]
    done = subprocess.run(
        [sys.executable, "-c", program, "5", *command], timeout=120, env=os.environ | {"PYTHONPATH": "."}
    )
    assert done.returncode == -9 and not target.exists() and len(os.listdir(f"{target}.parts")) > 4
    code, out, _ = run(*command)
    assert code == 0 and "resuming: " in out and target.read_bytes() == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "out.parquet", "whole.parquet"]


@pytest.mark.long
def test_two_processes_give_the_same_file_from_the_command_line(tmp_path: pathlib.Path, export: str) -> None:
    pattern = write(tmp_path / "data", "tfrecord", columns())
    files = []
    for workers in (1, 2):
        files.append(tmp_path / f"out-{workers}.parquet")
        command = [sys.executable, "-m", "ps_train", "predict", f"--export_dir={export}", f"--data={pattern}"]
        command += [f"--to={files[-1]}", f"--num_workers={workers}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert files[0].read_bytes() == files[1].read_bytes()


def test_another_model_starts_again_and_a_finished_result_stays(tmp_path: pathlib.Path, export: str) -> None:
    pattern, target = write(tmp_path / "data", "csv", columns()), tmp_path / "out.csv"
    other = write_export(tmp_path / "other", bias=5.0)
    (tmp_path / "out.csv.parts").mkdir()
    (tmp_path / "out.csv.parts" / "000000.000000").write_text("of another model\n")
    (tmp_path / "out.csv.parts" / "plan.json").write_text('{"identity": "another"}')
    arguments = [f"--data={pattern}", f"--to={target}"]
    code, out, _ = run(f"--export_dir={other}", *arguments, "--columns=key", "--prefix=p_")
    assert code == 0 and "resuming" not in out
    lines = target.read_text().splitlines()
    assert lines[0] == "key,p_pair,p_score" and len(lines) == COUNT + 1
    before = target.read_bytes()
    code, _, err = run(f"--export_dir={export}", *arguments)
    assert code == 2 and "is there already: use another path, or --overwrite" in err and target.read_bytes() == before
    assert run(f"--export_dir={export}", *arguments, "--overwrite")[0] == 0 and target.read_bytes() != before


def test_model_data_and_result_on_a_file_system_of_fsspec(
    tmp_path: pathlib.Path, export: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "spools"))
    (tmp_path / "spools").mkdir()
    data, target = columns(), tmp_path / "results" / "out.jsonl"
    write(tmp_path / "data", "jsonl", data)
    above = pathlib.Path(export).parent
    arguments = [f"--export_dir=local://{above}", f"--data=local://{tmp_path}/data/*.jsonl", f"--to=local://{target}"]
    upload = resumable.upload
    monkeypatch.setattr(resumable, "upload", lambda *paths: 1 / 0)
    code, _, err = run(*arguments)
    assert (code, err.count("\n")) == (2, 1) and "out.jsonl cannot be written (division by zero)" in err
    monkeypatch.setattr(resumable, "upload", upload)
    code, out, err = run(*arguments)
    assert (code, err) == (0, "") and "resuming: 2 of 2 parts are done" in out
    np.testing.assert_allclose(read(target)["score"], score(data["price"], data["ids"], data["name"]), rtol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "results", "spools"]
    (spools,) = (tmp_path / "spools").iterdir()
    assert list(spools.iterdir()) == [] and os.listdir(target.parent) == ["out.jsonl"]
    before = target.read_bytes()
    code, _, err = run(*arguments)
    assert code == 2 and "is there already: use another path, or --overwrite" in err and target.read_bytes() == before


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--to=s4://b/x.csv", "s4://b/x.csv cannot be reached: no package of fsspec knows s4://"),
        ("--to=memory://b/x.csv", "to=memory://b/x.csv is in the memory of one process"),
        ("--export_dir=s4://b/x", "cannot be reached: no package of fsspec knows s4://"),
        ("--export_dir=local:///no/x", "export_dir=local:///no/x has no saved_model.pb"),
        ("--data=s4://b/x", "cannot be reached: no package of fsspec knows s4://"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: pathlib.Path, export: str, option: str, words: str
) -> None:
    (tmp_path / "data.csv").write_text("key,price,ids,name\n1,2,3,a\n")
    flags = {"--export_dir": export, "--data": str(tmp_path / "data.csv"), "--to": str(tmp_path / "out.csv")}
    code, _, err = run(*(f"{name}={value}" for name, value in flags.items()), option)
    assert (code, err.count("\n")) == (2, 1) and words in err, err


@pytest.mark.parametrize("name", ["mine.txt", "000000.000000"])
def test_a_directory_of_another_origin_is_not_emptied(tmp_path: pathlib.Path, export: str, name: str) -> None:
    pattern, target = write(tmp_path / "data", "csv", columns()), tmp_path / "out.csv"
    folder = tmp_path / "out.csv.parts"
    folder.mkdir()
    (folder / name).write_text("precious")
    code, _, err = run(f"--export_dir={export}", f"--data={pattern}", f"--to={target}")
    assert (code, err.count("\n")) == (2, 1) and f"files of another origin, as {name}: use another path" in err
    assert os.listdir(folder) == [name] and (folder / name).read_text() == "precious" and not target.exists()


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("key,price,ids,name\n1,2.5,1|x,a\n", [], "data.csv line 2, column ids: 'x' is not int64"),
        (
            "key,price,ids,name\n1,,1,a\n",
            [],
            "line 2 has no value in column price: give one by --default=price=V",
        ),
        ("key,price,ids\n1,2,3\n", [], "the files have no column 'name': they have key, price, ids"),
        ("key,price,ids,name\n1,2\n", [], "data.csv line 2 has 2 cells, not 4: '1,2'"),
        ("key,price,ids,name\n", [], "the data have no rows"),
        ("", [], "no first line with the names"),
        ("key,price,ids,name\n1,2,3,a\n", ["--columns=nothing"], "no column 'nothing'"),
        ("key,price,ids,score,name\n1,2,3,4,a\n", [], "score is a column of the data and a prediction"),
        ("key,price,ids,name\n1,2,3,a\n", ["--format=parquet"], "cannot be read as a Parquet file"),
        ("key,price,ids,name\n1,2,3,a\n", ["--format=tfrecord"], "damaged"),
        ("key,price,ids,name\n1,2,3,a\n", ["--format=jsonl"], "data.csv line 1 is not JSON"),
        ("key,price,ids,name\n1,2,3,a\n", ["--batch_size=0"], "0 is not a whole number of at least 1"),
        ("key,price,ids,name\n1,2,3,a\n", ["--batch_size=99999999999"], "99999999999 is not a whole number of at"),
        ("key,price,ids,name\n1,2,3,a\n", ["--default=price"], "default=price is not NAME=VALUE"),
        ("key,price,ids,name\n1,2,3,a\n", ["--to=out"], "to=out has no format by its name"),
        ("key,price,ids,name\n1,2,3,a\n", ["--data=no-*"], "no file has a name like no-*"),
        ("key,price,ids,name\n1,2,3,a\n", ["--export_dir=no"], "export_dir=no has no saved_model.pb"),
        ("key,price,ids,name\n1,2,3,a\n", ["--signature=no"], "signature=no is not in"),
        ("key,price,ids,name\n1,2,3,a\n", ["--to=data.csv/x.csv"], "to=data.csv/x.csv cannot be written"),
        ("key,price,ids,name\n1,2,3,a\n", ["--num_worker=2"], "unrecognized arguments"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_result(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, export: str, text: str, options: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text(text)
    code, _out, err = run(f"--export_dir={export}", "--data=data.csv", "--to=out.csv", *options)
    assert (code, err.count("\n")) == (2, 1) and words in err, err
    assert not (tmp_path / "out.csv").exists()


def test_missing_values_have_defaults(tmp_path: pathlib.Path, export: str) -> None:
    (tmp_path / "a.csv").write_text("price,ids,name\n1,2,a\n,,b\n")
    pq.write_table(pa.table({"price": [1.0, None], "ids": [[2], None], "name": ["a", "b"]}), tmp_path / "b.parquet")
    for name in ("a.csv", "b.parquet"):
        target = tmp_path / f"{name}.out.jsonl"
        defaults = ["--default=price=3"] + ["--default=ids=0"] * name.endswith("parquet")
        code, _, err = run(f"--export_dir={export}", f"--data={tmp_path / name}", f"--to={target}", *defaults)
        assert code == 0, err
        found = [json.loads(line) for line in target.read_text().splitlines()]
        assert [one["score"] for one in found] == score([1, 3], [[2], []], ["a", "b"]).tolist()
        assert found[1]["price"] is None, "the column is carried as it is"
