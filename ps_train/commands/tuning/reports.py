"""The progress line, the best trials, study.json and study.html.

    progress_line(finished, ...)                    # "trial 12/50  best auc 0.8123 (trial 7)  2 failed  ETA 3:10"
    table(study.best(5), "auc")                     # lines with the best five
    write_summary(directory, summary)               # DIR/study.json
    write_page(study, directory, "auc", command)    # DIR/study.html: Optuna's pictures through plotly, in one file

It does not know processes.
"""

from __future__ import annotations

import dataclasses
import html
import json
import os
import shlex
import urllib.parse
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ps_train.base.console import duration
from ps_train.base.errors import ConfigError
from ps_train.base.extras import install
from ps_train.base.whole_file import write_whole
from ps_train.commands.tuning.executions import MODEL, TRIALS, Jobs
from ps_train.commands.tuning.study import Study, TunedTrial, import_optuna, without_password

SUMMARY, PAGE = "study.json", "study.html"
_REPORT = "report.html"
_SHOWN = 5

_STYLE = """body{font:14px system-ui,sans-serif;margin:2em auto;max-width:1100px;padding:0 1em;color:#222}
table{border-collapse:collapse}td,th{padding:.25em .8em;border-bottom:1px solid #ddd;text-align:left}
td.n{text-align:right;font-variant-numeric:tabular-nums}code{font-size:12px;overflow-wrap:anywhere}.none{color:#777}
.scroll{overflow-x:auto}@media(max-width:40em){body{margin:1em auto;padding:0 .6em}}"""


def check_plotly() -> None:
    """Raises ConfigError if plotly, which draws study.html, is not installed."""
    try:
        import plotly  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"tune draws {PAGE} with plotly, which cannot be imported ({error}): {install('tune')}."
        ) from None


def progress_line(
    finished: Sequence[TunedTrial], trials: int, best: Sequence[TunedTrial], objective: str, secs_left: float | None
) -> str:
    """Returns the progress line of a study."""
    value = f"{best[0].value:.6g} (trial {best[0].number})" if best else "-"
    parts = [f"trial {len(finished)}/{trials}", f"best {objective} {value}"]
    for state in ("pruned", "failed"):
        count = sum(trial.state == state for trial in finished)
        parts += [f"{count} {state}"] if count else []
    return "  ".join([*parts, f"ETA {duration(secs_left)}"])


def table(best: Sequence[TunedTrial], objective: str) -> list[str]:
    """Returns lines with the best trials, each with its flags."""
    rows = [("trial", objective, "+-", "steps", "flags")]
    for trial in best[:_SHOWN]:
        flags = shlex.join(trial.flags)
        rows.append((str(trial.number), f"{trial.value:.6g}", f"{trial.spread or 0:.3g}", str(trial.steps), flags))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return ["  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[4]]) for row in rows]


def command_of(jobs: Jobs, trial: TunedTrial, model_dir: str) -> str:
    """Returns the command that trains with the flags of a trial."""
    flags = [*jobs.arguments, *trial.flags, f"--seed={jobs.seed}", f"--model_dir={model_dir}"]
    return shlex.join(["python", "-m", "ps_train", *jobs.verb, *flags])


def write_summary(directory: str, summary: Mapping[str, Any]) -> None:
    """Writes study.json in one piece."""
    write_whole(os.path.join(directory, SUMMARY), json.dumps(summary, indent=1) + "\n")


def summary_of(study: Study, objective: str, command: str) -> dict[str, Any]:
    """Returns the content of study.json."""
    finished, best = study.finished(), study.best(1)
    return {
        "study": study.settings.name,
        "storage": without_password(str(study.settings.storage)),
        "objective": objective,
        "direction": study.settings.direction,
        "best": best[0].number if best else None,
        "command": command,
        "trials": [dataclasses.asdict(trial) for trial in finished],
    }


def write_page(study: Study, directory: str, objective: str, command: str) -> None:
    """Writes study.html in one piece: pictures and a table of all trials, with links to their own reports."""
    pictures = _pictures(study, objective)
    parts = [f"<h2>{html.escape(title)}</h2>{body}" for title, body in pictures]
    finished, best_trials = study.finished(), study.best(1)
    parts.append(f'<h2>Trials</h2><div class="scroll">{_trials(finished, directory, objective)}</div>')
    title = html.escape(f"Study {study.settings.name}: {objective}")
    found = f" {best_trials[0].value:.6g} (trial {best_trials[0].number})" if best_trials else ""
    count = "1 trial" if len(finished) == 1 else f"{len(finished)} trials"
    tab = f"{title}{found}, {count} · ps_train"
    best = f"<p>The best one: <code>{html.escape(command)}</code></p>" if command else ""
    text = (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{tab}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style>'
        f"</head><body><h1>{title}</h1>{best}{''.join(parts)}</body></html>\n"
    )
    write_whole(os.path.join(directory, PAGE), text)


def _pictures(study: Study, objective: str) -> list[tuple[str, str]]:
    """Returns title and HTML of Optuna's pictures; the first one that is drawn brings plotly with it."""
    visualization = import_optuna().visualization
    drawn: list[tuple[str, str]] = []
    has_library = False
    for title, draw, least in (
        ("History", visualization.plot_optimization_history, 1),
        ("Importance", visualization.plot_param_importances, 2),
        ("Parallel coordinates", visualization.plot_parallel_coordinate, 1),
    ):
        if len(study.best(least)) < least:
            drawn.append((title, f'<p class="none">It needs {least} complete trials.</p>'))
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                arguments = {} if title == "Importance" else {"target_name": objective}
                figure = draw(study.study, **arguments)
        except (RuntimeError, ValueError) as error:  # such as equal values of all trials, which tell no importance
            drawn.append((title, f'<p class="none">{html.escape(str(error))}</p>'))
            continue
        figure.update_layout(title=None)
        own = {"full_html": False, "include_plotlyjs": not has_library, "config": {"responsive": True}}
        drawn.append((title, figure.to_html(**own)))
        has_library = True
    return drawn


def _trials(finished: Sequence[TunedTrial], directory: str, objective: str) -> str:
    head = "".join(f"<th>{html.escape(name)}" for name in ("trial", "state", objective, "+-", "steps", "flags", "jobs"))
    rows = []
    for trial in finished:
        value = "" if trial.value is None else f"{trial.value:.6g}"
        spread = "" if trial.spread is None else f"{trial.spread:.3g}"
        note = html.escape(trial.state + (f": {trial.cause}" if trial.cause else ""))
        flags = html.escape(shlex.join(trial.flags))
        rows.append(
            f'<tr><td class="n">{trial.number}<td>{note}<td class="n">{value}<td class="n">{spread}'
            f'<td class="n">{trial.steps}<td><code>{flags}</code><td>{_links(trial.number, directory)}'
        )
    return f"<table><tr>{head}{''.join(rows)}</table>"


def _links(trial: int, directory: str) -> str:
    """Returns links to the reports of a trial's jobs, or to their output where a job wrote no report."""
    folder = os.path.join(directory, TRIALS, f"{trial:04}")
    links = []
    for name in sorted(os.listdir(folder), key=lambda name: (len(name), name)) if os.path.isdir(folder) else []:
        for path, text in ((f"{name}/{MODEL}/{_REPORT}", name), (f"{name}/output.log", f"{name} (output)")):
            if os.path.exists(os.path.join(folder, path)):
                target = urllib.parse.quote(f"{TRIALS}/{trial:04}/{path}")
                links.append(f'<a href="{target}">{html.escape(text)}</a>')
                break
    return " ".join(links)
