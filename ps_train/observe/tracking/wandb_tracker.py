"""W&B: a run online or offline.

Project, entity, key, address and mode are WANDB_PROJECT, WANDB_ENTITY, WANDB_API_KEY, WANDB_BASE_URL and WANDB_MODE, or
what `wandb login` has stored.  Its files are in the model directory, or in WANDB_DIR.
"""

from __future__ import annotations

import contextlib
import glob
import netrc
import os
import signal
import sys
import threading
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from ps_train.base.remote_files import scheme_of
from ps_train.observe.tracking.tracked_run import TrackedRun
from ps_train.observe.tracking.tracking import Point, RefusedRunError, RunEnd

NAME = "wandb"
_STEP = "global_step"
_PROJECT, _SERVICE = "ps_train", "wandb-core"
_INIT_SECS, _TEARDOWN_SECS = 60.0, 1.0
_EXIT_CODES = {"done": 0, "stopped": 130, "failed": 1}


class WandbTracker:
    """The run of a job at W&B.

    W&B has a process of its own, which keeps what it cannot send and tries again.
    """

    def __init__(self) -> None:
        self._wandb: Any = None
        self._run: Any = None
        self._others = _services()

    def load(self) -> None:
        """Imports W&B; see `Tracker.load`."""
        try:
            import wandb
        except ImportError as error:
            raise RefusedRunError(f"wandb cannot be imported ({error})") from error
        self._wandb = wandb

    def begin(self, run: TrackedRun) -> str:
        """Begins the run, or goes on with it by its id; see `Tracker.begin`."""
        wandb = self._wandb
        is_remote = bool(scheme_of(run.tags["model_dir"]))
        os.environ.setdefault("WANDB_PROJECT", _PROJECT)
        settings = wandb.Settings(silent=True, console="off", disable_git=True, init_timeout=_INIT_SECS)
        if settings.mode in ("online", "shared") and sys.stdin.isatty() and not _has_key(settings.base_url):
            raise RefusedRunError("no key for W&B: set WANDB_API_KEY, run `wandb login`, or set WANDB_MODE=offline")
        run_id = os.environ.get("WANDB_RUN_ID") or run.kept_id(NAME) or run.run_id
        try:
            self._run = wandb.init(
                id=run_id,
                name=run.name,
                group=run.parent or None,
                config={**run.parameters, "tags": dict(run.tags)},
                resume="allow",
                dir=os.environ.get("WANDB_DIR") or (None if is_remote else run.directory),
                settings=settings,
            )
        except wandb.errors.UsageError as error:
            raise RefusedRunError(str(error)) from error
        run.keep_id(NAME, run_id)
        self._run.define_metric("*", step_metric=_STEP)  # a recovery goes back to earlier steps
        self._save("plan.txt", run.plan + "\n")
        return str(self._run.url or self._run.dir)

    def send(self, points: Sequence[Point], tags: Mapping[str, str]) -> None:
        """Hands points to W&B's process, and texts into the run's summary; see `Tracker.send`."""
        for point in points:
            self._run.log({_STEP: point.step, **point.values})
        for name, text in tags.items():
            self._run.summary[name] = text

    def end(self, end: RunEnd) -> None:
        """Sends the files and the state, and ends W&B's process; see `Tracker.end`."""
        for path in end.files:
            with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
                self._save(os.path.basename(path), file.read())
        self._run.finish(exit_code=_EXIT_CODES[end.state])
        self._wandb.teardown()

    def abandon(self) -> None:
        """Ends W&B's process, for which Python's exit would wait for a minute; what it has not sent is lost."""
        own = _services() - self._others
        for pid in own:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if own and self._wandb is not None:
            thread = threading.Thread(target=self._tear_down, daemon=True)
            thread.start()
            thread.join(_TEARDOWN_SECS)  # another thread may hold W&B's lock

    def _tear_down(self) -> None:
        """Removes W&B's function at the exit of Python, which would say that its process has gone."""
        with contextlib.suppress(Exception):
            self._wandb.teardown()

    def _save(self, name: str, text: str) -> None:
        """Writes a file into the run's own directory, all of which W&B sends."""
        path = os.path.join(self._run.dir, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self._run.save(path, base_path=self._run.dir, policy="now")


def _services() -> set[int]:
    """Returns the processes of W&B that this process has started; those of the user's own runs among them."""
    found = set()
    for path in glob.glob("/proc/self/task/*/children"):
        with contextlib.suppress(OSError), open(path) as file:
            for pid in file.read().split():
                with open(f"/proc/{pid}/comm") as name:
                    found |= {int(pid)} if name.read().startswith(_SERVICE) else set()
    return found


def _has_key(base_url: str) -> bool:
    """Returns True if W&B will not ask the terminal for a key; a netrc file may have it."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    try:
        found = netrc.netrc(os.environ.get("NETRC")).authenticators(urllib.parse.urlsplit(base_url).hostname or "")
    except (OSError, netrc.NetrcParseError):
        return False
    return found is not None
