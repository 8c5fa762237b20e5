"""Flagfiles: comments, quotes, files in files, and what cannot be read."""

from __future__ import annotations

import os
import re

import pytest

from ps_train.base.errors import ConfigError
from ps_train.config import flagfile
from ps_train.config.flagfile import read_flagfile


@pytest.fixture
def path(tmp_path):
    return tmp_path / "job.flags"


def refusal(path):
    with pytest.raises(ConfigError) as caught:
        list(read_flagfile(str(path)))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "argument"),
    [
        ("--max_steps=7", "--max_steps=7"),
        ("  --max_steps=7  ", "--max_steps=7"),
        ("--max_steps=7 # seven", "--max_steps=7"),
        ("--max_steps=7\t#seven", "--max_steps=7"),
        ("--max_steps=7 // seven", "--max_steps=7"),
        ("--max_steps 7", "--max_steps=7"),
        ("--max_steps 7  # seven", "--max_steps=7"),
        ("--max_steps = 7", "--max_steps=7"),
        ("--verbose # more", "--verbose"),
        ("--model_dir=runs/a#1", "--model_dir=runs/a#1"),
        ("--model_dir=runs/two words", "--model_dir=runs/two words"),
        ("--data_dir=gs://bucket/x", "--data_dir=gs://bucket/x"),
        ('--model_dir="runs/a # b"  # quoted', "--model_dir=runs/a # b"),
        ("--model_dir='runs/a'", "--model_dir=runs/a"),
        ("--model_arg=a=b c", "--model_arg=a=b c"),
    ],
)
def test_a_comment_at_the_end_of_a_line_is_no_part_of_the_value(path, line, argument):
    path.write_text(line + "\n")
    (found,) = read_flagfile(str(path))
    assert (found.argument, found.source) == (argument, f"{path}:1")


@pytest.mark.parametrize("line", ["", "   ", "# a comment", "   # indented", "// another", "#"])
def test_comments_and_empty_lines_give_no_flag(path, line):
    path.write_text(line + "\n--seed=3\n")
    assert [(found.argument, found.source) for found in read_flagfile(str(path))] == [("--seed=3", f"{path}:2")]


@pytest.mark.parametrize("form", ["--flagfile={}", "--flagfile {}", "-flagfile={}  # the common part"])
def test_a_flagfile_in_a_flagfile_is_read_there_and_its_lines_are_its_own(path, tmp_path, form):
    inner = tmp_path / "inner.flags"
    inner.write_text("\n--max_steps=7\n")
    path.write_text(f"--seed=1\n{form.format(inner)}\n--seed=3\n")
    found = [(line.argument, line.source) for line in read_flagfile(str(path))]
    assert found == [("--seed=1", f"{path}:1"), ("--max_steps=7", f"{inner}:2"), ("--seed=3", f"{path}:3")]


def test_a_flagfile_that_reads_itself_is_refused_with_the_line(path, tmp_path):
    inner = tmp_path / "inner.flags"
    inner.write_text(f"--flagfile={path}\n")
    path.write_text(f"--seed=3\n--flagfile={inner}\n")
    assert f"(from {inner}:1) reads itself" in refusal(path)


def test_two_lines_may_read_the_same_file(path, tmp_path):
    inner = tmp_path / "inner.flags"
    inner.write_text("--seed=3\n")
    path.write_text(f"--flagfile={inner}\n--flagfile={inner}\n")
    assert len(list(read_flagfile(str(path)))) == 2


@pytest.mark.parametrize("content", [b"\x7fELF\x02\x01\x00", b"--max_steps=7\n\xff\xfe", b"--seed=3\x00"])
def test_a_binary_flagfile_is_refused(path, content):
    path.write_bytes(content)
    assert re.search(rf"flagfile {path} \(from the command line\) .*is not (a|UTF-8) text", refusal(path))


def test_flagfiles_that_read_each_other_without_end_are_refused(tmp_path):
    for number in range(30):  # 2 to the power of 30 lines
        (tmp_path / str(number)).write_text(f"--flagfile={tmp_path}/{number + 1}\n" * 2)
    assert "is one too many: use fewer than 20 in one another" in refusal(tmp_path / "0")
    (tmp_path / "10").write_text("--seed=3\n")
    assert "1000 in all" in refusal(tmp_path / "0")


def test_a_flagfile_that_is_too_large_or_a_pipe_without_end_is_refused(tmp_path, monkeypatch):
    (tmp_path / "large").write_text("# comment\n" * 200_000)
    assert "it is larger than 1048576 bytes" in refusal(tmp_path / "large")
    monkeypatch.setattr(flagfile, "_PIPE_SECS", 0.2)
    os.mkfifo(tmp_path / "pipe")
    assert "did not end within 0.2s" in refusal(tmp_path / "pipe")


def test_a_directory_and_a_missing_file_are_refused_with_the_line_that_names_them(path, tmp_path):
    assert "Is a directory" in refusal(tmp_path)
    path.write_text(f"--flagfile={tmp_path}/none\n")
    assert f"flagfile {tmp_path}/none (from {path}:1) cannot be read (No such file or directory)" in refusal(path)


def test_a_flagfile_of_another_system_is_read(path):
    path.write_bytes(b"\xef\xbb\xbf--max_steps=7\r\n--seed=3\r\n")
    assert [line.argument for line in read_flagfile(str(path))] == ["--max_steps=7", "--seed=3"]


def test_the_home_directory_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "job.flags").write_text("--seed=3\n")
    assert [line.source for line in read_flagfile("~/job.flags")] == ["~/job.flags:1"]
