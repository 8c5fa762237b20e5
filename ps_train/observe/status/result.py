"""The summary of a run that is over: its lines for the console and the content of result.json."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ps_train.config.fault_spec import dropped_share
from ps_train.config.job import Job
from ps_train.config.slice_names import split_slices
from ps_train.engine.updates.counters.counter_values import RunCounterValues


@dataclasses.dataclass(frozen=True)
class RunSummary:
    """Summary of a run that is over.

    Attributes:
      step: the global step.
      steps_made: steps made by this chief process.
      examples_made: examples used by this chief process.
      wall_secs: duration of the training in seconds.
      loss: the last loss; None if there is none.
      counters: the counters of the whole job.
      metrics: metrics of the test split, with those of its slices.
      saving: statistics of the checkpoints; see `AsyncSaver.report`.
      facts: further values of the result by their name, of parts that not every job has.
    """

    step: int
    steps_made: int
    examples_made: float
    wall_secs: float
    loss: float | None
    counters: RunCounterValues
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    saving: dict[str, Any] | None = None
    facts: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def lines(self, job: Job, early_end_reason: str) -> list[str]:
        """Returns the lines for the console; `early_end_reason` is the reason for an end below max_steps."""
        if self.steps_made == 0 and self.step >= job.max_steps:
            return [f"this job is finished already, at step {self.step} of {job.max_steps}"]
        lines = [
            f"trained {self.steps_made} steps in {self.wall_secs:.1f}s: "
            f"{self.steps_made / self.wall_secs:.0f} global steps/s, "
            f"{self.examples_made / self.wall_secs:.0f} examples/s"
        ]
        if self.step < job.max_steps:
            of_all = "" if job.last_step is None else f" of {job.last_step}"
            lines.append(f"{early_end_reason} at step {self.step}{of_all}")
        if self.counters.skipped:
            lines.append(f"{self.counters.skipped} gradients were skipped because they were not finite")
        if self.saving:
            count = self.saving["count"]
            mean, longest = (_rounded(self.saving[name]) for name in ("hold_secs_mean", "hold_secs_max"))
            saved, times = (
                ("1 checkpoint", mean)
                if count == 1
                else (f"{count} checkpoints", f"{mean} on average, {longest} at most")
            )
            lines.append(f"saved {saved}; saving paused updates for {times}")
        if self.counters.dropped:
            late = "came too late for their step" if job.update == "sync" else "were older than max_staleness"
            late += ", or were lost by --inject_fault" if dropped_share(job.inject_fault) else ""
            late += " or brought examples that others had used" if job.is_dynamic else ""
            lines.append(f"{self.counters.dropped} gradients were dropped because they {late}")
        return lines

    def result(self, job: Job) -> dict[str, Any]:
        """Returns the content of result.json; rates are those of this process, counts those of the whole job."""
        whole, slices = split_slices(self.metrics, job.eval_by)
        reports = {"staleness": self.counters.staleness_report(), "waiting": self.counters.waiting_report()}
        return {
            "global_step": self.step,
            "examples": int(self.counters.examples),
            "loss": self.loss,
            "metrics": whole,
            **({"slices": {job.eval_by: slices}} if slices else {}),
            "wall_secs": round(self.wall_secs, 3),
            "steps_per_sec": round(self.steps_made / self.wall_secs, 3) if self.wall_secs else 0.0,
            "examples_per_sec": round(self.examples_made / self.wall_secs, 3) if self.wall_secs else 0.0,
            "update": job.update,
            "cluster": {"ps": list(job.ps_hosts), "chief": list(job.chief_hosts), "worker": list(job.worker_hosts)},
            "skipped": int(self.counters.skipped),
            "dropped": int(self.counters.dropped),
            **self.counters.shown(),
            **self.facts,
            **({"save": self.saving} if self.saving else {}),
            **{name: report for name, report in reports.items() if report is not None},
        }


def _rounded(secs: float) -> str:
    """Returns a duration for reading: in whole milliseconds below a second."""
    return f"{secs:.1f} s" if secs >= 1 else f"{max(1, round(1000 * secs))} ms"
