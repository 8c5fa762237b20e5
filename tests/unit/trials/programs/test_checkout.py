"""Repositories in a folder: plain checkouts, git directories, and partial ones."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

from tests.trials.programs import checkout


def git(*arguments, cwd):
    options = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *options, *arguments], cwd=cwd, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path):
    """A repository with a program, a folder with a space in its name, a link and a large file."""
    made = tmp_path / "made"
    (made / "a b").mkdir(parents=True)
    (made / "run.sh").write_text("#!/bin/sh\n")
    (made / "run.sh").chmod(0o755)
    (made / "a b" / "data.bin").write_bytes(b"\n\0large\n" * 3)
    (made / "link").symlink_to("run.sh")
    git("init", "-q", cwd=made)
    git("add", ".", cwd=made)
    git("commit", "-qm", "first", cwd=made)
    return made


def check(folder):
    assert (folder / "run.sh").read_text() == "#!/bin/sh\n" and os.access(folder / "run.sh", os.X_OK)
    assert (folder / "link").is_symlink() and not (folder / ".git").exists()


@pytest.mark.parametrize("place", ["owner+name/repo", "owner/name", "name", "owner+name"])
@pytest.mark.parametrize("bare", [False, True])
def test_a_copy_has_the_files_of_the_newest_commit(repository, tmp_path, place, bare):
    target = tmp_path / "all" / place
    git("clone", "-q", *(["--bare"] if bare else []), str(repository), str(target), cwd=tmp_path)
    (repository / "later").write_text("not committed")
    source = checkout.find(tmp_path / "all", "owner/name")
    commit = checkout.copy(source, tmp_path / "copy")
    assert commit and git("rev-parse", "HEAD", cwd=repository).startswith(commit)
    check(tmp_path / "copy")
    assert (tmp_path / "copy" / "a b" / "data.bin").read_bytes() == b"\n\0large\n" * 3


def test_a_missing_object_is_left_out(repository, tmp_path):
    name = git("rev-parse", "HEAD:a b/data.bin", cwd=repository).strip()
    (repository / ".git" / "objects" / name[:2] / name[2:]).unlink()
    checkout.copy(repository / ".git", tmp_path / "copy")
    check(tmp_path / "copy")
    assert not (tmp_path / "copy" / "a b").exists()


def test_a_checkout_without_git_is_copied_as_it_is(tmp_path):
    (tmp_path / "owner+name").mkdir()
    (tmp_path / "owner+name" / "x.py").write_text("1")
    assert checkout.copy(checkout.find(tmp_path, "owner/name"), tmp_path / "copy") == ""
    assert (tmp_path / "copy" / "x.py").read_text() == "1"
    assert checkout.find(tmp_path, "owner/other") is None and checkout.find(pathlib.Path("/nothing"), "a/b") is None
