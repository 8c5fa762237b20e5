"""Made-up data in the formats of public programs.  Programs for MNIST need none: they get the digits of ps_train."""

from __future__ import annotations

import pathlib
import random
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

_CENSUS = {
    "workclass": ["Private", "State-gov", "Self-emp-inc"],
    "education": ["Bachelors", "HS-grad", "Masters"],
    "marital_status": ["Never-married", "Divorced", "Widowed"],
    "occupation": ["Sales", "Tech-support", "Craft-repair"],
    "relationship": ["Husband", "Wife", "Unmarried"],
    "race": ["White", "Black", "Other"],
    "gender": ["Male", "Female"],
    "country": ["United-States", "Canada", "Mexico"],
}


def census(folder: pathlib.Path) -> None:
    """Writes `train.csv` and `eval.csv` in the format of the census: 15 columns, a space before each but the first."""
    drawn = random.Random(1)
    for name, rows in (("train.csv", 2000), ("eval.csv", 400)):
        lines = []
        for _ in range(rows):
            value = {key: drawn.choice(values) for key, values in _CENSUS.items()}
            years, hours = drawn.randint(1, 16), drawn.randint(10, 60)
            label = ">50K" if years + hours / 10 + drawn.random() > 12 else "<=50K"
            row = [
                drawn.randint(17, 80), value["workclass"], drawn.randint(10000, 90000), value["education"], years,
                value["marital_status"], value["occupation"], value["relationship"], value["race"], value["gender"],
                drawn.randint(0, 9), drawn.randint(0, 9), hours, value["country"], label,
            ]  # fmt: skip
            lines.append(", ".join(map(str, row)))
        (folder / name).write_text("\n".join(lines) + "\n")


def easyrec(config: str, copy: pathlib.Path, folder: pathlib.Path) -> None:
    """Compiles EasyRec's protos, and writes `train.csv` and `eval.csv` in the format of a configuration.

    Args:
      config: the configuration, below the copy.
      copy: of the repository.
      folder: of the data.
    """
    protos = sorted(str(path.relative_to(copy)) for path in copy.glob("easy_rec/python/protos/*.proto"))
    compiler = [sys.executable, "-m", "grpc_tools.protoc", "-I.", "--python_out=."]
    subprocess.run([*compiler, *protos], cwd=copy, check=True, capture_output=True)
    text = (copy / config).read_text()
    fields = re.findall(r"input_name:\s*['\"](\w+)['\"]\s*input_type:\s*(\w+)", text.partition("feature_config")[0])
    drawn = random.Random(1)

    def value(name: str, kind: str) -> str:
        if name in ("clk", "buy"):
            return str(drawn.randint(0, 1))
        if name.startswith("tag_"):
            return "|".join(str(drawn.randint(0, 50)) for _ in range(3))
        return str(drawn.randint(0, 50 if kind == "STRING" else 40))

    for name, rows in (("train.csv", 2000), ("eval.csv", 200)):
        lines = [",".join(value(*field) for field in fields) for _ in range(rows)]
        (folder / name).write_text("\n".join(lines) + "\n")


def for_python_3(program: pathlib.Path) -> None:
    """Converts a program for Python 2 with Python's own converter."""
    subprocess.run([sys.executable, "-m", "lib2to3", "-w", "-n", program], check=True, capture_output=True)


def clicks_for_python_2(program: str, copy: pathlib.Path, folder: pathlib.Path) -> None:
    """Converts a program, and writes 6,400 rows `tr.libsvm`, `0 1:1 23:0.5`, of 10 fields with 20 features each.

    Args:
      program: below the copy.
      copy: of the repository.
      folder: of the data.
    """
    for_python_3(copy / program)
    drawn = random.Random(1)

    def row() -> str:
        features = [f"{20 * field + drawn.randrange(20)}:{drawn.random():.3f}" for field in range(10)]
        return " ".join([str(drawn.randint(0, 1)), *features])

    for name, rows in (("tr", 6400), ("va", 640)):
        (folder / f"{name}.libsvm").write_text("".join(f"{row()}\n" for _ in range(rows)))


def images(folder: pathlib.Path) -> None:
    """Writes `train.tfrecords` and `test.tfrecords` with grey images of 784 bytes and their labels."""
    drawn = random.Random(1)
    for name, rows in (("train", 600), ("test", 200)):
        records = ({"label": [drawn.randrange(10)], "image_raw": [drawn.randbytes(784)]} for _ in range(rows))
        _write_records(folder / f"{name}.tfrecords", records)


def videos(program: str, copy: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes 3,000 records, 600 for the evaluation, and the vocabularies that a program of RecAlgorithm reads.

    Args:
      program: below the copy.
      copy: of the repository, in which the program expects its data.
      folder: not used.
    """
    text = (copy / program).read_text()
    words = dict(re.findall(r"vocabulary_file\(\s*['\"](\w+)['\"],[^'\"]*['\"](\w+\.txt)['\"]", text))
    numbers = re.findall(r"numeric_column\(['\"](\w+)['\"]", text)
    labels = {"read_comment", "like", "click_avatar", "forward"}
    place = copy / "dataset" / "wechat_algo_data1"
    for part in ("vocabulary", "tfrecord", "dataframe"):
        (place / part).mkdir(parents=True, exist_ok=True)
    for name in set(words.values()):
        (place / "vocabulary" / name).write_text("".join(f"{word}\n" for word in range(1, 51)))
    drawn = random.Random(1)

    def record() -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {name: [drawn.random()] for name in numbers}
        found |= {name: [float(drawn.randint(0, 1))] for name in labels}
        for name in words:
            many = 3 if name.endswith(("_list", "_seq")) else 1
            found[name] = [str(drawn.randint(1, 50)).encode() for _ in range(many)]
        return found

    for name, rows in (("train", 3000), ("test", 600)):
        _write_records(place / "tfrecord" / f"{name}.tfrecord", (record() for _ in range(rows)))
    lines = [",".join(sorted(labels)), *[",".join("0" for _ in labels)] * 600]
    (place / "dataframe" / "test.csv").write_text("\n".join(lines) + "\n")


def products(folder: pathlib.Path) -> None:
    """Writes `train.tfrecords` and `test.tfrecords` with clicks on products; most columns of the programs are left out.

    Args:
      folder: of the data.
    """
    drawn = random.Random(1)
    lengths = {"behaviorBids": 20, "behaviorCids": 20, "behaviorC1ids": 10, "behaviorSids": 20, "behaviorPids": 20}
    lengths |= dict.fromkeys(["productId", "sellerId", "brandId", "cate1Id", "cateId", "cate2Id"], 1)

    def record() -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {name: [drawn.randint(1, 50) for _ in range(n)] for name, n in lengths.items()}
        for name in ("bid", "cid", "c1id", "sid", "pid"):
            ids = found[f"behavior{name.capitalize()}s"]
            found[f"{name}Weights"] = [drawn.random() for _ in ids]
        click = drawn.randint(0, 1)
        return found | {"click": [click], "pay": [click * drawn.randint(0, 1)], "matchScore": [drawn.random()]}

    for name, rows in (("train", 3000), ("test", 200)):
        _write_records(folder / f"{name}.tfrecords", (record() for _ in range(rows)))


def _write_records(path: pathlib.Path, records: Iterable[Mapping[str, list[Any]]]) -> None:
    import tensorflow as tf  # here, since the command itself needs none

    kinds: dict[type, Any] = {
        bytes: lambda values: tf.train.Feature(bytes_list=tf.train.BytesList(value=values)),
        int: lambda values: tf.train.Feature(int64_list=tf.train.Int64List(value=values)),
        float: lambda values: tf.train.Feature(float_list=tf.train.FloatList(value=values)),
    }
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            features = {name: kinds[type(values[0])](values) for name, values in record.items()}
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def pictures(name: str, train: int, test: int, copy: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes `NAME.npz` in the format of a data set of Keras: enlarged digits, as grey images or as coloured ones.

    Args:
      name: `mnist` and `fashion_mnist` have images of 28x28, every other 32x32 with three colours.
      train: number of examples for the training.
      test: number of examples for the test.
      copy: not used.
      folder: of the data.
    """
    import numpy as np  # here, since the command itself needs none

    from ps_train.data import digits

    is_grey = name.endswith("mnist")
    found = {}
    for part, count in (("train", train), ("test", test)):
        images, labels = digits.load(part)
        large = np.kron(images.reshape(-1, 8, 8), np.ones((3, 3) if is_grey else (4, 4)))
        large = np.pad(large, ((0, 0), (2, 2), (2, 2))) if is_grey else np.repeat(large[..., None], 3, axis=-1)
        chosen = np.arange(count) % len(images)
        found[f"x_{part}"] = (large * 255).astype(np.uint8)[chosen]
        found[f"y_{part}"] = (labels if is_grey else labels[:, None]).astype(np.uint8)[chosen]
    np.savez(folder / f"{name}.npz", **found)


def houses(folder: pathlib.Path) -> None:
    """Writes `boston_housing.npz` in the format of Keras: 13 features of each house, and its price."""
    import numpy as np

    drawn = np.random.default_rng(1)
    found = {f"x_{part}": drawn.uniform(1, 100, (count, 13)) for part, count in (("train", 404), ("test", 102))}
    prices = {f"y_{part}": found[f"x_{part}"].mean(axis=1) for part in ("train", "test")}
    np.savez(folder / "boston_housing.npz", **found, **prices)
