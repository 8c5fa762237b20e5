"""Files, JSON and records of others: values within the limits, or an error in a few words, and never a hang."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
import time
from typing import Any

import pytest

from ps_train.base.errors import RefusedError
from ps_train.base.untrusted import (
    UntrustedError,
    as_record,
    file_name,
    inner_path,
    is_of,
    parse_json,
    path_below,
    read_object,
    read_record,
    read_text,
    sealed,
    unsealed,
)


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes("\ufeffé\n".encode())
    assert read_text(str(path), 6, encoding="utf-8-sig") == "é\n"
    with pytest.raises(UntrustedError, match="larger than 5 bytes"):
        read_text(str(path), 5)


def test_an_enormous_file_is_not_read(tmp_path):
    with open(tmp_path / "file", "wb") as file:
        file.truncate(1 << 40)
    began = time.monotonic()
    with pytest.raises(UntrustedError, match="larger than 16777216 bytes"):
        read_text(str(tmp_path / "file"))
    assert time.monotonic() - began < 30


def test_bytes_that_are_not_utf8_are_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"a\xffb")
    with pytest.raises(UntrustedError, match="not UTF-8"):
        read_text(str(tmp_path / "file"))


def test_a_pipe_without_a_writer_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UntrustedError, match="not a regular file"):
        read_text(str(tmp_path / "pipe"))
    with pytest.raises(UntrustedError, match=r"did not end within 0\.2s"):
        read_text(str(tmp_path / "pipe"), pipe_secs=0.2)


def test_a_pipe_that_ends_in_time_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text("--max_steps=3\n" * 9000))
    writer.start()
    assert read_text(str(tmp_path / "pipe"), pipe_secs=60) == "--max_steps=3\n" * 9000
    writer.join()


def test_a_device_is_read_only_where_pipes_are_and_within_its_limit():
    assert read_text("/dev/null", pipe_secs=5) == ""
    with pytest.raises(UntrustedError, match="larger than 10 bytes"):
        read_text("/dev/zero", 10, pipe_secs=5)
    with pytest.raises(UntrustedError, match="not a regular file"):
        read_text("/dev/null")


def test_a_directory_a_circle_of_links_and_a_missing_file_are_errors_of_the_system(tmp_path):
    os.symlink("circle", tmp_path / "circle")
    for name, text in ((".", "directory"), ("circle", "symbolic links"), ("missing", "No such file")):
        with pytest.raises(OSError, match=text):
            read_text(str(tmp_path / name))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("[" * 70 + "]" * 70, "nested more than 64 deep"),
        ('{"a": 1, "a": 2}', "the key 'a' twice"),
        ("9" * 41, "more than 40 digits"),
        ("NaN", "not finite"),
        ("[1e999]", "not finite"),
        ('"\\ud800"', "half a character"),
        ('{"\\u0000": 1}', "NUL"),
        ("{", "not JSON"),
        ("[1] 2", "not JSON"),
        (b'"\xff"', "not UTF-8"),
        ('"' + "x" * 100 + '"', "longer than 100 characters"),
    ],
)
def test_json_beyond_the_limits_is_refused(text, problem):
    with pytest.raises(UntrustedError, match=problem) as raised:
        parse_json(text, 100 if isinstance(text, str) and "x" * 100 in text else 1 << 20)
    assert str(raised.value).isprintable()


def test_json_within_the_limits_is_parsed():
    assert parse_json('{"a": [1, -2.5, "é\\ud83d\\ude00", null, true]}') == {"a": [1, -2.5, "é😀", None, True]}
    assert parse_json("[" * 63 + "]" * 63)
    assert parse_json("[NaN]", finite=False)[0] != 0


@dataclasses.dataclass(frozen=True)
class Example:
    name: str
    count: int
    rate: float = 0.5
    shares: dict[str, int] = dataclasses.field(default_factory=dict)
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)


def test_an_object_with_the_fields_of_a_record_makes_one():
    assert as_record(Example, {"name": "a", "count": 2, "rate": 1}) == Example("a", 2, 1)
    found = as_record(Example, {"name": "a", "count": 2, "shares": {"w": 1}, "extra": {"any": [None]}})
    assert found.shares == {"w": 1}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "not a JSON object"),
        ({"name": "a"}, "no field count"),
        ({"name": "a", "count": 1, "__class__": 2}, "unknown field '__class__'"),
        ({"name": 1, "count": 1}, "its field name is 1"),
        ({"name": "a", "count": True}, "its field count is True"),
        ({"name": "a", "count": 1.0}, "its field count"),
        ({"name": "a", "count": 2**63}, "its field count"),
        ({"name": "a", "count": 1, "rate": "1"}, "its field rate"),
        ({"name": "a", "count": 1, "shares": {"w": "1"}}, "its field shares"),
        ({"name": None, "count": 1}, "its field name is None"),
    ],
)
def test_another_object_is_refused(value, problem):
    with pytest.raises(UntrustedError, match=problem):
        as_record(Example, value)


def test_a_record_of_another_version_ends_the_task_with_one_line():
    with pytest.raises(RefusedError, match="Example, cannot be read: it has no field name; run the same version"):
        read_record(Example, "{}")
    with pytest.raises(RefusedError, match="not a JSON object"):
        read_object("[]")
    assert read_object('{"a": 1}') == {"a": 1}


def test_lists_are_checked_too():
    assert is_of("list[str]", ["a"]) and not is_of("list[str]", ["a", 1]) and not is_of("list[str]", "a")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\\b", "a\nb", "a\0b", "\x7f", "\ud800", "é" * 128])
def test_what_is_not_the_name_of_a_file_is_refused(name):
    with pytest.raises(UntrustedError):
        file_name(name)


def test_names_of_files_are_taken_as_they_are():
    for name in ("words.txt", "...", "..a", "a b", "名前　1", "é" * 127, "-", "~"):
        assert file_name(name) == name and inner_path(f"{name}/{name}") == f"{name}/{name}"


def test_a_path_below_a_directory_does_not_lead_out_of_it(tmp_path):
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "out").symlink_to(tmp_path)
    (tmp_path / "in" / "back").symlink_to(tmp_path / "in" / "sub")
    folder = str(tmp_path / "in")
    assert path_below(folder, "back/new") == f"{folder}/back/new" and path_below(folder, "x/y") == f"{folder}/x/y"
    for name in ("../x", "sub/../../x", "/etc/passwd", "out/x", "out", "sub//x", "sub/"):
        with pytest.raises(UntrustedError):
            path_below(folder, name)


def test_a_sealed_record_is_read_back_and_a_changed_one_is_not():
    record = {"a": 1, "b": [0.1, None, "é"], "c": {"d": True}}
    text = json.dumps(sealed(record), indent=1)
    assert unsealed(parse_json(text)) == record
    for old, new in (("0.1", "0.2"), ("true", "false"), ('"a"', '"A"'), ("1,", "1.0,")):
        with pytest.raises(UntrustedError, match="another hash"):
            unsealed(parse_json(text.replace(old, new, 1)))
    for other in (record, [], "text", None):
        with pytest.raises(UntrustedError):
            unsealed(other)
