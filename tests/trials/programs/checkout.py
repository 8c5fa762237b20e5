"""Public repositories in a folder, as a fresh copy of each: plain checkouts, or git directories without a work tree.

    source = find(pathlib.Path("/work/.mirror"), "alibaba/EasyRec")       # None if it is not there
    copy(source, pathlib.Path("/tmp/copy"))

A git directory may lack large files, as that of a partial clone does. They are left out.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess

_LINK, _EXECUTABLE = "120000", "100755"


def find(folder: pathlib.Path, repository: str) -> pathlib.Path | None:
    """Returns the checkout or the git directory of a repository in a folder; None if there is none.

    Args:
      folder: it has OWNER/NAME, OWNER+NAME or NAME; a checkout or git directory may be there, or in `repo` below.
      repository: OWNER/NAME.
    """
    owner, name = repository.split("/")
    for place in (f"{owner}/{name}", f"{owner}+{name}", f"{owner}+{name}.git", f"{owner}/{name}.git", name):
        for found in (folder / place / "repo", folder / place):
            if _is_git_directory(found / ".git"):
                return found / ".git"
            if _is_git_directory(found):
                return found
        if (folder / place).is_dir() and any((folder / place).iterdir()):
            return folder / place
    return None


def copy(source: pathlib.Path, target: pathlib.Path) -> str:
    """Copies the files of the newest commit, or of a checkout without git; returns the commit's short name, or "".

    Args:
      source: the checkout, or the git directory.
      target: a folder that does not exist.
    """
    if not _is_git_directory(source):
        shutil.copytree(source, target, symlinks=True)
        return ""
    files = []
    for entry in _git(source, "ls-tree", "-r", "-z", "HEAD").split(b"\0"):
        meta, _, path = entry.partition(b"\t")
        if path and meta.split()[1] == b"blob":
            files.append((*(word.decode() for word in meta.split()[::2]), path.decode()))
    target.mkdir(parents=True)
    for (mode, _, path), content in zip(files, _contents(source, [each[1] for each in files]), strict=True):
        if content is None:
            continue
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if mode == _LINK:
            place.symlink_to(content.decode())
        else:
            place.write_bytes(content)
            place.chmod(0o755 if mode == _EXECUTABLE else 0o644)
    return _git(source, "rev-parse", "--short", "HEAD").decode().strip()


def _is_git_directory(path: pathlib.Path) -> bool:
    return (path / "HEAD").is_file() and (path / "objects").is_dir()


def _git(directory: pathlib.Path, *arguments: str, stdin: bytes = b"") -> bytes:
    command = ["git", f"--git-dir={directory}", *arguments]
    return subprocess.run(command, input=stdin, stdout=subprocess.PIPE, check=True).stdout


def _contents(directory: pathlib.Path, names: list[str]) -> list[bytes | None]:
    """Returns the contents of git's objects; None for an object that is missing."""
    output = _git(directory, "cat-file", "--batch", stdin="".join(f"{name}\n" for name in names).encode())
    contents: list[bytes | None] = []
    at = 0
    for _ in names:
        end = output.index(b"\n", at)
        header = output[at:end].split()
        if header[-1] == b"missing":
            contents.append(None)
            at = end + 1
        else:
            size = int(header[2])
            contents.append(output[end + 1 : end + 1 + size])
            at = end + size + 2
    return contents
