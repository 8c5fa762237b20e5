"""Directories at addresses, on fsspec's file system in memory and on one without exclusive writing."""

from __future__ import annotations

import pathlib
import sys
import uuid

import pytest

from ps_train.base import remote_files
from ps_train.base.errors import ConfigError
from ps_train.base.remote_files import RemoteDirectory, is_probe, may_pass, missing_package, scheme_of
from ps_train.base.untrusted import UntrustedError

pytest.importorskip("fsspec")


@pytest.fixture
def directory() -> RemoteDirectory:
    return RemoteDirectory(f"memory://{uuid.uuid4().hex}/runs/1/")


@pytest.mark.parametrize(
    ("path", "scheme"),
    [("gs://b/x", "gs"), ("s3:/b", "s3"), ("a+b.c-1://x", "a+b.c-1"), ("/a:/b", ""), ("c/s3://x", ""), ("1a://x", "")],
)
def test_the_scheme_is_what_stands_before_the_first_slash(path: str, scheme: str) -> None:
    assert scheme_of(path) == scheme


def test_an_unknown_file_system_is_refused() -> None:
    assert missing_package("nosuch") == "no package of fsspec knows nosuch://"
    assert missing_package("memory") == ""
    with pytest.raises(ConfigError, match="nosuch://a cannot be reached: no package"):
        remote_files.file_system_of("nosuch://a")


@pytest.mark.parametrize(("scheme", "command"), [("s3", "[s3]"), ("gs", "[gs]"), ("hdfs", "pip install fsspec")])
def test_a_missing_package_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch, scheme: str, command: str
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert missing_package(scheme).startswith(f"{scheme}:// needs fsspec: pip install ")
    assert command in missing_package(scheme)


@pytest.mark.parametrize(("scheme", "advice"), [("s3", "[s3]"), ("hdfs", "Install x")])
def test_a_missing_package_of_fsspec_is_named_by_it_or_by_its_extra(
    monkeypatch: pytest.MonkeyPatch, scheme: str, advice: str
) -> None:
    def absent(scheme: str) -> None:
        raise ImportError("Install x.")

    monkeypatch.setattr("fsspec.get_filesystem_class", absent)
    found = missing_package(scheme)
    assert found.startswith(f"{scheme}:// needs a package: ") and advice in found and not found.endswith(".")


class NoCredentialsError(Exception):
    pass


def test_errors_of_names_rights_and_credentials_stay() -> None:
    lasting = [FileNotFoundError(), PermissionError(), ImportError(), ValueError(), TypeError(), NoCredentialsError()]
    assert [may_pass(error) for error in lasting] == [False] * 6
    assert [may_pass(error) for error in (OSError(), ConnectionError(), TimeoutError(), RuntimeError())] == [True] * 4


def test_files_are_written_read_moved_and_removed(directory: RemoteDirectory, tmp_path: pathlib.Path) -> None:
    assert not directory.url.endswith("/")
    assert directory.read("a") is None and directory.names() == []
    directory.write("a", b"123")
    (tmp_path / "local").write_bytes(b"4567")
    directory.upload(str(tmp_path / "local"), "eval/b")
    assert directory.sizes() == {"a": 3, "eval/b": 4} and directory.sizes("eval") == {"b": 4}
    assert sorted(directory.names()) == ["a", "eval"]
    directory.download("eval/b", str(tmp_path / "copy"))
    assert (tmp_path / "copy" / "eval" / "b").read_bytes() == b"4567"
    directory.move("a", "c")
    assert directory.read("a") is None and directory.read("c") == b"123"
    directory.remove("c")
    directory.remove("c")  # it is gone already
    assert directory.sizes() == {"eval/b": 4}
    directory.remove_all()
    assert directory.names() == []


def test_a_file_is_created_once(directory: RemoteDirectory) -> None:
    assert directory.create("lock", b"mine")
    assert not directory.create("lock", b"other")
    assert directory.read("lock") == b"mine"


def test_creating_looks_first_where_the_package_cannot_write_exclusively(
    directory: RemoteDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = directory._files
    pipe = files.pipe_file

    def plain(path: str, data: bytes, **options: str) -> None:
        if options:
            raise TypeError("unexpected argument mode")
        pipe(path, data)

    monkeypatch.setattr(files, "pipe_file", plain)
    assert directory.create("lock", b"mine")
    assert not directory.create("lock", b"other")
    assert directory.read("lock") == b"mine"


def test_a_check_leaves_nothing_and_its_file_is_known_by_name(
    directory: RemoteDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.check_writable()
    assert directory.sizes() == {}
    written: list[str] = []
    monkeypatch.setattr(directory, "write", lambda name, data: written.append(name))
    directory.check_writable()
    assert is_probe(written[0]) and not is_probe("probe-1") and not is_probe(written[0] + "0")


def test_a_name_that_leads_out_is_refused(directory: RemoteDirectory, tmp_path: pathlib.Path) -> None:
    with pytest.raises(UntrustedError):
        directory.download("../out", str(tmp_path))


def test_a_directory_is_made_and_so_is_the_one_above_a_file(tmp_path: pathlib.Path) -> None:
    directory = RemoteDirectory(f"local://{tmp_path}/runs/1")
    directory.make()
    assert (tmp_path / "runs" / "1").is_dir()
    directory.write("eval/a", b"1")
    assert (tmp_path / "runs" / "1" / "eval" / "a").read_bytes() == b"1"
