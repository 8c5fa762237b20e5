"""A public program, how it is run, and its expected end."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class Program:
    """A program of a repository, as all tasks of a cluster.

    Attributes:
      repository: OWNER/NAME.
      folder: of the repository, in which the program is started.
      command: the program and its arguments, after those of `python -m ps_train run`.  `{data}` stands for the folder
        of the data, `{model}` for an empty one.
      end: a regular expression that the output must have, besides exit code 0; "" for none.
      prepare: writes the data, given the copy of the repository and the folder; it may change the copy, as README
        says.
      cluster: the flags of the cluster.
      needs: further packages that must be installed.
      label: the name where the command alone does not tell programs apart.
      switches: further flags of `run`.
      environment: further variables, with the places as in `command`.
    """

    repository: str
    folder: str
    command: Sequence[str]
    end: str
    prepare: Callable[[pathlib.Path, pathlib.Path], None] | None = None
    cluster: Sequence[str] = ("--num_ps=1", "--num_workers=2")
    needs: Sequence[str] = ()
    label: str = ""
    switches: Sequence[str] = ("--compat",)
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name by which `--only` finds it."""
        program = next(word for word in self.command if word != "-m")
        return f"{self.repository}:{self.label or f'{self.folder}/{program}'.strip('./')}"
