"""Made-up data in the formats of public programs.  Programs for MNIST need none: they get the digits of ps_train."""

from __future__ import annotations

import pathlib
import random
import re
import subprocess
import sys

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
