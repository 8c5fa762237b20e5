"""`python -m benchmarks tune`: steps until a study has found a planted optimum, by sampler and pruner.

    python -m benchmarks tune --repeats=5           # five seeds; trials are trained by numpy in this process
    python -m benchmarks tune --repeats=1 --jobs    # one seed; 50 trials x 3 executions of real jobs, in two studies

The model is `planted.py`.  The studies are those of `python -m ps_train tune`, with its samplers, pruners and state
machine; only a job is replaced, by the same training in numpy, because 150 jobs of seconds for each study would take
hours.  With --jobs these numbers are taken over from the last result, and a study of jobs that was interrupted goes on
from its directory, runs/tune-jobs.

A study has found the optimum when a complete trial is among the best 0.5 % of what random proposals give: that value is
measured beforehand, with 4000 proposals of another seed.  Optuna's TPE begins with 10 random proposals, so an optimum
that random search finds as early would tell nothing.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import machine, planted, results
from benchmarks.errors import ContenderError
from benchmarks.table import markdown
from ps_train.commands.tuning.search import Ending, Search
from ps_train.commands.tuning.space import parse_space
from ps_train.commands.tuning.study import MINIMIZE, Settings, Study, TrialRecord, import_optuna

TRIALS, EXECUTIONS, STEPS, EVALUATE = 50, 3, 200, 20
MOST_TRIALS, PROPOSALS, SHARE, TARGET = 600, 4000, 0.005, 0.4
STUDIES = (("random", "none"), ("tpe", "none"), ("tpe", "median"), ("tpe", "hyperband"))
STUDIES_OF_JOBS = (("tpe", "median"), ("random", "none"))
EVALUATE_JOBS = 100
JOBS_DIRECTORY = pathlib.Path("runs/tune-jobs")


class InProcess:
    """An execution without a process: it makes the steps up to its next evaluation at each look."""

    def __init__(self, trial: TrialRecord, seed: int, evaluate: int) -> None:
        self._training = planted.descend(**_arguments(trial.flags), seed=seed, steps=STEPS, evaluate=evaluate)
        self._step, self._value, self._is_stopped = 0, float("nan"), False

    def evaluations(self) -> Sequence[tuple[int, float]]:
        self._step, self._value = next(self._training)
        return [(self._step, self._value)]

    def poll(self) -> Ending | None:
        if self._is_stopped:
            return Ending(143, steps=self._step)
        if not np.isfinite(self._value):  # a job ends there too
            return Ending(1, steps=self._step, cause="the loss is not finite")
        return Ending(0, self._value, self._step) if self._step == STEPS else None

    def stop(self) -> None:
        self._is_stopped = True

    kill = stop


def run(options: argparse.Namespace) -> int:
    record: dict[str, Any] = {"date": results.today(), "machine": machine.machine(), "load": [machine.load_average()]}
    if options.jobs:
        record = _last_record(options.results)
        record["jobs"] = {
            "machine": machine.machine(),
            "studies": [
                study_of_jobs(sampler, pruner, seed, record["found_below"])
                for seed in range(1, options.repeats + 1)
                for sampler, pruner in STUDIES_OF_JOBS
            ],
        }
    else:
        record["found_below"] = found_below()
        record["studies"] = [
            study_of(sampler, pruner, seed, record["found_below"])
            for seed in range(1, options.repeats + 1)
            for sampler, pruner in STUDIES
        ]
        record["load"].append(machine.load_average())
    text = report(record)
    results.store("tune", record, text, "", options.results)
    print(text)
    return 0


def _last_record(directory: str) -> dict[str, Any]:
    """Returns the last result, which has the studies with executions of numpy."""
    paths = sorted(pathlib.Path(directory).glob("*-tune.json"))
    if not paths:
        raise ContenderError(f"{directory} has no result of tune: run it without --jobs first.")
    found: dict[str, Any] = json.loads(paths[-1].read_text())
    return found


def found_below() -> float:
    """Returns the value of the best 0.5 % of random proposals."""
    random = np.random.default_rng(12345)
    rates = 10 ** random.uniform(-4, 0, PROPOSALS)
    kinds = random.choice(["left", "right", "middle"], PROPOSALS)
    places = random.uniform(size=(PROPOSALS, 2))
    added = [planted.added(a, b, kind) for (a, b), kind in zip(places.tolist(), kinds.tolist(), strict=True)]
    runs = [
        list(planted.descend_all(rates, np.array(added), seed=seed, steps=STEPS, evaluate=STEPS))[-1][1]
        for seed in range(EXECUTIONS)
    ]
    values = np.mean(runs, axis=0)
    return float(np.quantile(np.where(np.isfinite(values), values, np.inf), SHARE))


def study_of(sampler: str, pruner: str, seed: int, below: float) -> dict[str, Any]:
    """Runs a study until it has found the optimum and has 50 trials; returns its numbers."""
    storage = import_optuna().storages.InMemoryStorage()
    seed_of_study = seed * 1000
    settings = Settings(
        "planted", storage, MINIMIZE, sampler, pruner, seed_of_study, EXECUTIONS, STEPS,
        EVALUATE if pruner != "none" else 0, {},
    )  # fmt: skip
    study = Study(settings, parse_space(planted.SPACE))
    found: dict[str, Any] = {}

    def ended(number: int) -> None:
        best = study.best(1)
        if not found and best and best[0].value is not None and best[0].value <= below:
            trials = study.finished()
            found.update(steps=sum(trial.steps for trial in trials), trials=len(trials))

    def start(trial: TrialRecord, execution: int) -> InProcess:
        return InProcess(trial, seed_of_study + execution, settings.eval_steps or STEPS)

    for trials in (TRIALS, MOST_TRIALS):
        search = Search(study, start, trials, ended=ended)
        while (trials == TRIALS or not found) and search.advance():
            pass
    finished, best = study.finished(), study.best(1)[0]
    return {
        "sampler": sampler,
        "pruner": pruner,
        "seed": seed,
        "found": bool(found),
        "steps": found.get("steps", sum(trial.steps for trial in finished)),
        "trials": found.get("trials", len(finished)),
        "steps_of_50": sum(trial.steps for trial in finished[:TRIALS]),
        "best": best.value,
        "params": dict(best.params),
    }


def study_of_jobs(sampler: str, pruner: str, seed: int, below: float) -> dict[str, Any]:
    """Runs a study of real jobs, or goes on with it; returns its numbers."""
    folder = JOBS_DIRECTORY / f"{sampler}-{pruner}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "-m", "ps_train", "tune", "--model=benchmarks.planted:Planted", "--objective=mse",
        f"--trials={TRIALS}", f"--executions={EXECUTIONS}", f"--max_steps={STEPS}", f"--batch_size={planted.BATCH}",
        "--optimizer=sgd", "--num_workers=1", "--parallel_trials=2", f"--study_dir={folder}", f"--seed={seed * 1000}",
        f"--sampler={sampler}", f"--pruner={pruner}", *(f"--space={text}" for text in planted.SPACE),
        *([f"--save_steps={EVALUATE_JOBS}"] if pruner != "none" else []),
    ]  # fmt: skip
    path = folder / "study.json"
    if not path.exists() or len(json.loads(path.read_text())["trials"]) < TRIALS:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ContenderError(f"tune ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    found = import_optuna().load_study(study_name=folder.name, storage=f"sqlite:///{folder}/study.db").trials
    secs = (max(t.datetime_complete for t in found) - min(t.datetime_start for t in found)).total_seconds()
    trials = json.loads(path.read_text())["trials"]
    complete = [trial for trial in trials if trial["state"] == "complete"]
    first = min((trial["number"] for trial in complete if trial["value"] <= below), default=None)
    until = [trial for trial in trials if first is None or trial["number"] <= first]
    best = min(complete, key=lambda trial: trial["value"])
    jobs = sum(1 for _ in folder.glob("trials/*/*/model/run_id"))
    return {
        "sampler": sampler,
        "pruner": pruner,
        "seed": seed,
        "found": first is not None,
        "steps": sum(trial["steps"] for trial in until),
        "trials": len(until),
        "steps_of_50": sum(trial["steps"] for trial in trials),
        "secs": secs,
        "jobs": jobs,
        "states": {state: sum(t["state"] == state for t in trials) for state in ("complete", "pruned", "failed")},
        "best": best["value"],
        "spread": best["spread"],
        "params": best["params"],
    }


def report(record: dict[str, Any]) -> str:
    """Returns the report of a record."""
    rows, base = [], _steps(record, *STUDIES[0])
    for sampler, pruner in STUDIES:
        steps = _steps(record, sampler, pruner)
        mine = [one for one in record["studies"] if (one["sampler"], one["pruner"]) == (sampler, pruner)]
        rows.append([
            sampler, pruner, " ".join(f"{one['steps']}{'' if one['found'] else '+'}" for one in mine),
            " ".join(str(one["trials"]) for one in mine), f"{statistics.fmean(steps):.0f}",
            f"{sum(steps) / sum(base):.0%}", " ".join(f"{a / b:.0%}" for a, b in zip(steps, base, strict=True)),
            f"{statistics.fmean(one['steps_of_50'] for one in mine):.0f}",
        ])  # fmt: skip
    head = [
        "sampler",
        "pruner",
        "steps of each seed",
        "trials of each seed",
        "mean steps",
        "of random",
        "by seed",
        "50 trials",
    ]
    share = sum(_steps(record, "tpe", "median")) / sum(base)
    lines = [
        f"# Search for a planted optimum, measured on {record['date']}",
        "",
        f"{machine.text(record['machine'])}; load average {record['load'][0]} before, {record['load'][-1]} after.",
        "",
        f"Steps until a complete trial has a test error of at most {record['found_below']:.4f}, the best {SHARE:.1%}",
        f"of {PROPOSALS} random proposals. A trial has {EXECUTIONS} executions of {STEPS} steps, evaluated every",
        f"{EVALUATE}. The executions are numpy's in one process; the studies are those of `python -m ps_train tune`.",
        f"A `+` marks a study without such a trial after {MOST_TRIALS} trials. The last column has the steps of the",
        f"first {TRIALS} trials.",
        "",
        markdown(head, rows),
        "",
        f"TPE with the median pruner made {share:.0%} of the steps of random search without pruning "
        f"(target: {TARGET:.0%}, {'reached' if share <= TARGET else 'missed'}).",
    ]
    if jobs := record.get("jobs"):
        lines += _report_of_jobs(jobs)
    return "\n".join([*lines, ""])


def _report_of_jobs(jobs: dict[str, Any]) -> list[str]:
    """Returns the lines about the studies of real jobs."""
    head = ["sampler", "pruner", "seed", "until found", "trials", "50 trials", "jobs", "pruned", "failed", "best", "s"]
    rows = [
        [
            one["sampler"], one["pruner"], str(one["seed"]), f"{one['steps']}{'' if one['found'] else '+'}",
            str(one["trials"]), str(one["steps_of_50"]), str(one["jobs"]), str(one["states"]["pruned"]),
            str(one["states"]["failed"]), f"{one['best']:.4f} +- {one['spread']:.4f}", f"{one['secs']:.0f}",
        ]
        for one in jobs["studies"]
    ]  # fmt: skip
    best = min(jobs["studies"], key=lambda one: one["best"])
    flags = ", ".join(f"`{name}` {value:.3g}" if isinstance(value, float) else f"`{name}` {value}"
                      for name, value in best["params"].items())  # fmt: skip
    lines = [
        "",
        "## Real jobs",
        "",
        f"{machine.text(jobs['machine'])},",
        f"shared with others. {TRIALS} trials of {EXECUTIONS} whole jobs, two trials at a time; with a pruner each",
        f"job has an evaluator, and a checkpoint every {EVALUATE_JOBS} steps. Steps count up to the first complete",
        "trial below the same test error; a `+` marks a study without one, which counts with all its steps.",
        "",
        markdown(head, rows),
        "",
        f"The best one has {flags}.",
    ]
    seeds = sorted({one["seed"] for one in jobs["studies"]})
    by_kind = [[one["steps"] for one in jobs["studies"] if one["sampler"] == kind] for kind in ("tpe", "random")]
    if all(len(steps) == len(seeds) for steps in by_kind):
        lines.append(
            f"Over {len(seeds)} seed{'s' if len(seeds) > 1 else ''}, TPE with the median pruner made "
            f"{'' if all(one['found'] for one in jobs['studies']) else 'at most '}"
            f"{sum(by_kind[0]) / sum(by_kind[1]):.0%} of the steps of random search."
        )
    return lines


def _steps(record: dict[str, Any], sampler: str, pruner: str) -> list[int]:
    return [one["steps"] for one in record["studies"] if (one["sampler"], one["pruner"]) == (sampler, pruner)]


def _arguments(flags: Sequence[str]) -> dict[str, Any]:
    """Returns the arguments of `descend` of a trial's flags."""
    texts: dict[str, str] = dict(flag.removeprefix("--").removeprefix("model_arg=").split("=") for flag in flags)
    values: dict[str, Any] = {name: float(text) for name, text in texts.items() if name != "kind"}
    return {**values, "kind": texts["kind"]}
