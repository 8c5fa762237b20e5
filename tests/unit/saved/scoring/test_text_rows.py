"""Rows of text for `predict`: values that are carried do not change, and any layout of a file is read or refused."""

from __future__ import annotations

import gzip
import io
import json
import pathlib

import pytest

from ps_train.base.console import Console
from ps_train.commands.scoring.predict import predict
from ps_train.saved.scoring import text_rows
from tests.support.saved.exported_models import score, write_export

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_export(tmp_path_factory.mktemp("models") / "export" / "1")


def run(export: str, data: pathlib.Path, to: str, *options: str) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    code = predict(
        [f"--export_dir={export}", f"--data={data}", f"--to={data.parent / to}", *options], Console(out, err)
    )
    return code, err.getvalue()


def rows_of(path: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


IDS = ["1234567890123456789", "12e45678", "0e123456", "007", "2020-01-01", "1.10", " x", "12345678901234567890123"]


@pytest.mark.parametrize("to", ["out.jsonl", "out.parquet", "out.csv", "out.tsv"])
def test_a_cell_that_the_model_does_not_take_stays_text(tmp_path: pathlib.Path, export: str, to: str) -> None:
    data = tmp_path / "a.csv"
    data.write_text("price,ids,name,user\n" + "".join(f"1.50,2|3,n,{one}\n" for one in IDS))
    assert run(export, data, to) == (0, "")
    if to.endswith("jsonl"):
        found = [(one["price"], one["user"]) for one in rows_of(tmp_path / to)]
        assert found == [(1.5, one) for one in IDS]
    elif to.endswith("parquet"):
        table = pq.read_table(tmp_path / to)
        assert table["user"].to_pylist() == IDS and table["price"].type == pa.float64()
        assert table["ids"].to_pylist() == ["2|3"] * len(IDS)
    else:
        mark = {"csv": ",", "tsv": "\t"}[to[-3:]]
        lines = [line.split(mark)[:4] for line in (tmp_path / to).read_text().splitlines()[1:]]
        assert lines == [["1.50", "2|3", "n", one] for one in IDS]


def test_types_make_numbers_of_text_and_name_a_wrong_cell(tmp_path: pathlib.Path, export: str) -> None:
    data = tmp_path / "a.csv"
    data.write_text("price,ids,name,user,old\n1,,n,1234567890123456789,true\n2,,n,,0\n")
    assert run(export, data, "out.jsonl", "--types=user=int64", "--types=old=bool") == (0, "")
    found = [(one["user"], one["old"]) for one in rows_of(tmp_path / "out.jsonl")]
    assert found == [(1234567890123456789, True), (None, False)]
    code, err = run(export, data, "other.jsonl", "--types=user,old=int32")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{data} line 2, column user: '1234567890123456789' is not int32" in err
    code, err = run(export, data, "other.jsonl", "--types=user=number")
    assert (code, err.count("\n")) == (2, 1) and "types=user=number is not a type: use string, bool, int64" in err


JSON = [
    '{"price": 1, "ids": [2, 3], "name": "a", "u": 1234567890123456789, "t": "2020-01-01 00:00:00"}',
    '{"price": 0.5, "ids": [], "name": "b", "u": 12345678901234567890, "m": [1, "x", null]}',
    '{"price": 2, "name": "c", "u": 0.5, "m": {"k": [[1], []]}}',
    '{"price": 2, "name": "", "ids": null, "u": "17", "m": true, "later": "\\ud83d\\ude00"}',
]


def test_lines_of_json_are_carried_as_they_are_with_columns_of_later_lines(tmp_path: pathlib.Path, export: str) -> None:
    data = tmp_path / "a.jsonl"
    data.write_text("\n".join(JSON) + "\n\n")
    assert run(export, data, "out.jsonl", "--batch_size=1") == (0, "")
    found, given = rows_of(tmp_path / "out.jsonl"), [json.loads(line) for line in JSON]
    names = {"price", "ids", "name", "u", "t", "m", "later"}
    assert [{name: one[name] for name in names} for one in found] == [
        {name: one.get(name) for name in names} for one in given
    ]
    lists = [one.get("ids") or [] for one in given]
    assert [one["score"] for one in found] == score([1, 0.5, 2, 2], lists, ["a", "b", "c", ""]).tolist()


@pytest.mark.parametrize("batch_size", [1, 4])
def test_values_of_several_types_are_texts_where_a_column_has_one_type(
    tmp_path: pathlib.Path, export: str, batch_size: int
) -> None:
    data = tmp_path / "a.jsonl"
    data.write_text("\n".join(JSON) + "\n")
    for to in ("out.parquet", "out.csv"):
        assert run(export, data, to, f"--batch_size={batch_size}") == (0, "")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table["u"].to_pylist() == ["1234567890123456789", "12345678901234567890", "0.5", "17"]
    assert table["t"].to_pylist() == ["2020-01-01 00:00:00", None, None, None]
    assert table["price"].to_pylist() == [1, 0.5, 2, 2] and table["ids"].to_pylist() == [[2, 3], [], None, None]
    assert [value and json.loads(value) for value in table["m"].to_pylist()] == [
        json.loads(line).get("m") for line in JSON
    ]
    assert table["later"].to_pylist() == [None, None, None, "\U0001f600"]
    header = (tmp_path / "out.csv").read_text().splitlines()[0]
    assert header == "price,ids,name,u,t,m,later,pair,score"


def test_large_integers_beside_floats_keep_their_digits_in_any_batch(tmp_path: pathlib.Path, export: str) -> None:
    data = tmp_path / "a.jsonl"
    numbers = [9007199254740993, 0.5, 18446744073709551615]
    data.write_text("".join(json.dumps({"price": 1, "name": "a", "u": one}) + "\n" for one in numbers))
    for size in (1, 3):
        assert run(export, data, "out.parquet", f"--batch_size={size}", "--overwrite") == (0, "")
        assert pq.read_table(tmp_path / "out.parquet")["u"].to_pylist() == [str(one) for one in numbers]


def test_a_quote_in_a_tsv_is_a_character(tmp_path: pathlib.Path, export: str) -> None:
    data = tmp_path / "a.tsv"
    data.write_text('price\tids\tname\n1\t2\t"ab\n2\t\tc"d"\n3\t\t"e"\n')
    assert run(export, data, "out.tsv") == (0, "")
    names = [line.split("\t")[2] for line in (tmp_path / "out.tsv").read_text().splitlines()[1:]]
    assert names == ['"ab', 'c"d"', '"e"']
    assert run(export, data, "out.jsonl") == (0, "")
    scores = [one["score"] for one in rows_of(tmp_path / "out.jsonl")]
    assert scores == score([1, 2, 3], [[2], [], []], names).tolist()
    data = tmp_path / "tab.jsonl"
    data.write_text('{"price": 1, "name": "a\\tb"}\n')
    code, err = run(export, data, "tab.tsv")
    assert (code, err.count("\n")) == (2, 1) and "a cell has a tab or a line end, which a tsv cannot have" in err


@pytest.mark.parametrize("is_packed", [False, True])
def test_long_cells_long_first_lines_and_line_ends_of_windows_are_read(
    tmp_path: pathlib.Path, export: str, monkeypatch: pytest.MonkeyPatch, is_packed: bool
) -> None:
    monkeypatch.setattr(text_rows, "_BLOCK_BYTES", 1000)
    monkeypatch.setattr(text_rows, "_PART_BYTES", 1 << 19)
    name, long = "c" * 1_500_000, "x" * 200_000
    lines = [f"\ufeffprice,ids,name,{name}", f'1,2,{long},"a\rb"', *(f'{i},,n,"a,""b"""' for i in range(60))]
    text = "\r\n".join(lines).encode()
    data = tmp_path / "a.csv"
    data.write_bytes(gzip.compress(text) if is_packed else text)
    assert run(export, data, "out.jsonl", "--batch_size=7") == (0, "")
    found = rows_of(tmp_path / "out.jsonl")
    assert [one[name] for one in found] == ["a\rb"] + ['a,"b"'] * 60
    assert [one["score"] for one in found] == score([1, *range(60)], [[2], *[[]] * 60], [long, *"n" * 60]).tolist()


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("csv", b"price,ids,name,x,x\n1,2,3,4,5\n", "a.csv has two columns of the name 'x': rename one"),
        ("jsonl", b'{"price": 1}\n{"name": "a", "x": 1, "x": 2}\n', "line 2 has two columns of the name 'x'"),
        ("csv", b"price,ids,name\n1,2,a\rb\n", "line 2 has a carriage return within a cell"),
        ("csv", b'price,ids,name\n1,2,"a\nb"\n', "line 2 has a cell without a closing quote in its line"),
        ("csv", b'price,ids,name\n1,2,b\n1,2,"a\n', "line 3 has a cell without a closing quote"),
        ("csv", b"price,ids,name\n1,2,\xe9\n", r"line 2 is not UTF-8: b'1,2,\xe9'"),
        ("csv", "price,ids,name\n1,2,a\n".encode("utf-16"), "line 1 is not UTF-8"),
        ("csv", b"price,ids,name\n1,2,a\n\n1,2,a\n", "line 3 is empty"),
        ("csv", b"price,ids,name\n1,2,a\n1,2|?,a\n", "line 3, column ids: '?' is not int64"),
        ("jsonl", b'{"price": 1, "name": "a"}\n[1]\n', "line 2 is not an object of JSON: b'[1]'"),
        ("jsonl", b'{"price": 1, "name": "a"}\n{"price": 2}\n', "line 2 has no value in column name"),
        ("jsonl", b'{"price": 1, "name": "\xff"}\n', "line 1 is not JSON"),
        ("jsonl", b'{"price": 1, "name": [1, "a"]}\n', "name has values of several types"),
        ("jsonl", b'{"price": 1, "name": 5}\n', "name has values of int64: the model takes strings"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(
    tmp_path: pathlib.Path, export: str, kind: str, text: bytes, words: str
) -> None:
    data = tmp_path / f"a.{kind}"
    data.write_bytes(text)
    code, err = run(export, data, "out.jsonl")
    assert (code, err.count("\n")) == (2, 1) and words in err, err
    assert not (tmp_path / "out.jsonl").exists()


def test_one_default_stands_for_many_columns(tmp_path: pathlib.Path, export: str) -> None:
    data = tmp_path / "a.csv"
    data.write_text("price,ids,name\n,1,\n2,,b\n")
    for options, prices, lists, names in (
        (["--default=price,name=007"], [7, 2], [[1], []], ["007", "b"]),
        (["--default=*=12", "--default=price=1"], [1, 2], [[1], [12]], ["12", "b"]),
        (["--default=p*=0", '--default=name="a=b"'], [0, 2], [[1], []], ["a=b", "b"]),
    ):
        assert run(export, data, "out.jsonl", *options, "--overwrite") == (0, "")
        assert [one["score"] for one in rows_of(tmp_path / "out.jsonl")] == score(prices, lists, names).tolist()
    for option, words in (
        ("--default=price=x", "default=price, column price: 'x' is not double"),
        ("--default=pric?s=1", "no column 'pric?s': they have price, ids, name"),
        ("--default=price=1", "line 2 has no value in column name: give one by --default=name=VALUE"),
    ):
        code, err = run(export, data, "other.jsonl", option)
        assert (code, err.count("\n")) == (2, 1) and words in err, err
