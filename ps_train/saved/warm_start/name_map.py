"""The file of `--warm_start_map`: the names that variables have in the checkpoint, where they differ.

    # the variable or scope here = its name in the checkpoint
    deep/kernel = dnn/hiddenlayer_0/kernel
    tower/ = net/
    head/bias =
    words = words old_vocab=/day1/words.txt new_vocab=/day2/words.txt

A scope ends with a slash; the longest one that a name begins with counts.  Nothing after `=`: it starts as new.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Mapping

from ps_train.base.errors import ConfigError, nearest
from ps_train.base.untrusted import UntrustedError, read_text
from ps_train.config.fields import shown

_OPTIONS = ("old_vocab", "new_vocab")


@dataclasses.dataclass(frozen=True)
class MapLine:
    """A line of the map.

    Attributes:
      new: name of the variable here, or a scope with its slash.
      old: its name in the checkpoint; "": it starts as new.
      place: file and line, for errors.
      old_vocab: file of the ids of the checkpoint's rows, one a line; "": id i is i.
      new_vocab: the same for the rows here.
    """

    new: str
    old: str
    place: str
    old_vocab: str = ""
    new_vocab: str = ""


@dataclasses.dataclass(frozen=True)
class NameMap:
    """The map: name or scope here to its line."""

    lines: Mapping[str, MapLine] = dataclasses.field(default_factory=dict)

    def line_of(self, name: str) -> MapLine | None:
        """Returns the line for a variable itself, not for its scope."""
        return self.lines.get(name)

    def old_name(self, name: str) -> str:
        """Returns the name in the checkpoint; "" if the variable starts as new."""
        if name in self.lines:
            return self.lines[name].old
        scopes = [scope for scope in self.lines if scope.endswith("/") and name.startswith(scope)]
        if not scopes:
            return name
        line = self.lines[max(scopes, key=len)]
        return line.old and line.old + name[len(line.new) :]

    def check(self, new: Collection[str], old: Collection[str], source: str) -> None:
        """Checks that all names exist.

        Args:
          new: names of the model's variables.
          old: names of the checkpoint's.
          source: the checkpoint, for errors.

        Raises:
          ConfigError: one does not exist; the text has the nearest ones.
        """
        for line in self.lines.values():
            for name, known, what in ((line.new, new, "the model"), (line.old, old, source)):
                found = any(one.startswith(name) for one in known) if name.endswith("/") else name in known
                if name and not found:
                    raise ConfigError(
                        f"{line.place}: {what} has no {'scope' if name.endswith('/') else 'variable'} {shown(name)}"
                        f"{_nearest(name, known)}."
                    )


def read_map(path: str) -> NameMap:
    """Reads a map; "": an empty one.

    Raises:
      ConfigError: the file cannot be read, or a line is not valid.
    """
    if not path:
        return NameMap()
    try:
        texts = read_text(path).splitlines()
    except (OSError, UntrustedError) as error:
        raise ConfigError(f"warm_start_map={path} cannot be read ({error}): give a text file.") from None
    lines: dict[str, MapLine] = {}
    for number, text in enumerate(texts, 1):
        text = text.partition("#")[0].strip()
        if not text:
            continue
        line = _parsed(text, f"{path}:{number}")
        if line.new in lines:
            raise ConfigError(f"{line.place}: {line.new} is in {lines[line.new].place} too: use one line for it.")
        lines[line.new] = line
    return NameMap(lines)


def _parsed(text: str, place: str) -> MapLine:
    new, equals, rest = text.partition("=")
    new, words = new.strip(), rest.split()
    options = dict(word.split("=", 1) for word in words if word.startswith(tuple(f"{name}=" for name in _OPTIONS)))
    names = [word for word in words if word.partition("=")[0] not in options]
    if not equals or not new or len(new.split()) > 1 or len(names) > 1 or any("=" in name for name in names):
        raise ConfigError(
            f"{place}: {shown(text)} is not valid: use NAME = NAME_IN_THE_CHECKPOINT, with old_vocab=FILE and "
            "new_vocab=FILE for a vocabulary that has changed."
        )
    old = names[0] if names else ""
    if old and new.endswith("/") != old.endswith("/"):
        raise ConfigError(f"{place}: {shown(text)} is not valid: a scope ends with a slash on both sides.")
    if options and (not old or new.endswith("/")):
        raise ConfigError(
            f"{place}: {shown(text)} is not valid: a vocabulary belongs to one variable of the checkpoint."
        )
    folder = os.path.dirname(place)
    return MapLine(new, old, place, **{key: os.path.join(folder, value) for key, value in options.items()})


def _nearest(name: str, known: Collection[str]) -> str:
    names = {one[: one.rfind("/") + 1] for one in known if "/" in one} if name.endswith("/") else known
    return nearest(name, sorted(names), ": the nearest names are {}", most=3, cutoff=0.4)
