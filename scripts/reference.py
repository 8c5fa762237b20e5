"""Writes docs/flags.md and docs/reference.md from the tables of the code.

    python scripts/reference.py        # after a change of a flag, an event, a rule, a metric or a public name

Every version of Python and TensorFlow gives the same pages: signatures have no types.
"""

from __future__ import annotations

import argparse
import inspect
import json
import pathlib
import re
import textwrap
import types
from collections.abc import Iterable, Sequence
from typing import Any

import ps_train
from ps_train.base import errors
from ps_train.base.lifecycle import KINDS
from ps_train.base.tf_import import import_quietly
from ps_train.config import optimizer_arguments
from ps_train.config.fields import allowed_values, job_fields, kind_of
from ps_train.config.job import Job, Task
from ps_train.config.refusals import help_of
from ps_train.config.verbs import VERBS
from ps_train.observe.status import status_json
from ps_train.observe.status.health import RULES

DOCS = pathlib.Path(__file__).parents[1] / "docs"
_MADE = "<!-- Made by `python scripts/reference.py` from the code: change it there. -->"
_BRACKETS = re.compile(r" *\[([^\[\]]+)\]$|(?<=\.) *\[([^\[\]]+)\](?=  )")
"""The default that a help text gives in words: at its end, or at the end of its first sentence."""

_MOST_WORDS = 8
"""A longer description of the allowed values repeats the meaning of the flag."""

_LISTED = {
    "ps_train.estimator": "names of `tf.estimator`; [migrate](migrate.md#from-tfestimator) has the differences",
    "ps_train.train": "names of `tf.train` that are made right; all others of `tf.compat.v1.train` are there too",
    "ps_train.models": "see [shipped models](models.md#shipped-models)",
}
"""Modules whose names are listed alone, with a remark."""

_PAGES = {
    "ps_train": "models#a-model",
    "ps_train.data": "data#arrays",
    "ps_train.embeddings": "tables#a-table",
    "ps_train.features": "ranking#features",
    "ps_train.keras": "keras#fit",
    "ps_train.losses": "ranking#losses",
    "ps_train.metrics": "models#metrics",
    "ps_train.negatives": "ranking#negatives",
    "ps_train.optimizers": "models#optimizers",
    "ps_train.serving": "serve#follow-a-training",
}
"""Modules and the pages about them."""

_DESCRIBED_ELSEWHERE = {
    "Job": "`Job(**flags)`: A complete description of a run; its fields are the [flags](flags.md).",
    "Task": "`Task(job_name, task_index)`: Job name and task index of a process.",
}


def flags_page() -> str:
    """Returns the page of all flags: those of a job by section, then those of each verb."""
    parts = ["# Flags", _MADE, "Every flag, its default, its page. A flag's name leads to the page that explains it."]
    parts += ["```bash\npython -m ps_train --helpfull\n```"]
    parts += [
        "A flag with \\* must have the same value in every task of a job, except its evaluator. "
        "`--flagfile=FILE` reads flags from a file, "
        "one a line. The command line overrides a flagfile."
    ]
    by_section: dict[str, list[Sequence[str]]] = {}
    for field in (*job_fields(Task), *job_fields(Job)):
        by_section.setdefault(field.metadata["section"], []).append(_row_of_flag(field))
    for section, rows in by_section.items():
        parts += [f"## {section.capitalize()}", _table(_COLUMNS, rows)]
    for name, verb in VERBS.items():
        about = f"`python -m ps_train {name}` {verb.about}: [{verb.page.partition('#')[0]}]({link(verb.page)})."
        parser = verb.load_parser()
        rows = (
            [_row_of_option(action) for action in parser.added if "--help" not in action.option_strings]
            if parser
            else []
        )
        parts += [f"## {name}", about, *([_table(_COLUMNS, rows)] if rows else [])]
    return _page(parts)


_COLUMNS = ("Flag", "Default", "Allowed", "Meaning")


def _row_of_flag(field: Any) -> Sequence[str]:
    help, default = _without_default(help_of(field))
    if not default and field.default not in (None, (), ""):
        default = _code(_value(field.default))
    mark = "\\*" if field.metadata["shared"] else ""
    return f"[`--{field.name}`]({link(field.metadata['page'])}){mark}", default, _allowed(field), _cell(help)


def _row_of_option(action: argparse.Action) -> Sequence[str]:
    help, default = _without_default(action.help or "")
    name = action.option_strings[-1] if action.option_strings else str(action.metavar or action.dest)
    if action.nargs == 0:  # a flag without a value
        allowed = ""
    elif action.choices:
        allowed = ", ".join(map(_code, action.choices))
    else:
        allowed = _code(action.metavar) if action.option_strings and isinstance(action.metavar, str) else ""
    if action.required and action.nargs != argparse.REMAINDER:
        default = "required"
    elif default == str(action.default) or default == _value(action.default):
        default = _code(default)
    return _code(name), default, allowed, _cell(help)


def _value(value: Any) -> str:
    """Returns a default as users write it."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _without_default(help: str) -> tuple[str, str]:
    """Returns a help text without the default that it gives in words, and that default."""
    found = _BRACKETS.search(help)
    return (_BRACKETS.sub("", help), _cell(found[1] or found[2])) if found else (help, "")


def _allowed(field: Any) -> str:
    text = allowed_values(field)
    if kind_of(field) is bool or text == "any value":
        return ""
    if text.startswith("one of ") and ":" not in text:
        return ", ".join(map(_code, text.removeprefix("one of ").split(", ")))
    text = re.sub(r"^a (whole |finite )?number (of )?", "", text)
    text = re.sub(r"^at least (-?\d+) and at most (\d+)$", r"\1 to \2", text.removeprefix("from "))
    return _cell(text) if len(text.split()) <= _MOST_WORDS else ""


def link(page: str) -> str:
    """Returns the address of a page and its heading, as checkpoints#save, from a page in docs."""
    name, _, heading = page.partition("#")
    return f"{'../' if name.isupper() else ''}{name}.md#{heading}"


def reference_page() -> str:
    """Returns the page of everything else that programs and people look up; it imports TensorFlow."""
    return _page(
        [
            "# Reference",
            _MADE,
            "Python API, files, exit codes, metrics. [Flags](flags.md) have a page of their own.",
            "```bash\npython -m pydoc ps_train.Model\n```",
            *_exit_codes(),
            *_errors(),
            *_events(),
            *_health_rules(),
            *_status_api(),
            *_prometheus(),
            *_optimizers(),
            *_python_api(),
            *_files(),
            *_environment(),
        ]
    )


def _exit_codes() -> list[str]:
    rows = [(code, _cell(meaning)) for code, meaning in errors.EXIT_CODES.items()]
    after = "[Exit codes](troubleshoot.md#exit-codes) says what you and a scheduler do after each."
    return ["## Exit codes", _table(("Code", "Meaning"), rows), after]


def _errors() -> list[str]:
    found = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    public = {name: f"ps_train.{name}" for name in ps_train.__all__}
    names = [public.get(kind.__name__, kind.__name__) for kind in found]
    rows = [
        (_code(name), str(kind.exit_code), _summary(inspect.getdoc(kind)))
        for name, kind in zip(names, found, strict=True)
    ]
    about = "All are subclasses of `ps_train.PsTrainError`; those without `ps_train.` are subclasses of "
    about += "`ps_train.TrainingError`."
    return ["## Errors", about, _table(("Error", "Exit code", "Meaning"), rows)]


def _events() -> list[str]:
    about = "`--events_json=FILE` appends each event of the chief as one JSON object a line: `time` (seconds since "
    about += "1970), `kind`, `task` (empty for the job) and `text`."
    return ["## Events", about, _table(("Kind", "Meaning"), [(_code(kind), text) for kind, text in KINDS.items()])]


def _health_rules() -> list[str]:
    job, rows = Job(), []
    for rule in RULES:
        status = status_json.STATUS if rule.name == "lag_growth" else {**status_json.STATUS, "stream": None}
        advice = rule.advice(status, job, "worker:0" if rule.name == "slow_worker" else "ps:0", 2 * rule.limit)
        limit = f"{rule.limit:g}{' s' if rule.unit == 'secs' else ''}"
        rows.append((_code(rule.name), limit, _cell(rule.meaning), _cell(advice)))
    about = "A rule warns above its limit, from step 50 on; `--health_limits=RULE:NUMBER,...` sets limits. The advice "
    about += "is an example: ps_train names only flags that the job can use. [Health](watch.md#health) shows where "
    about += "warnings appear."
    after = "`side_work` has no limit: it warns while checkpoints, deltas, uploads, tracking or event files fail."
    return ["## Health rules", about, _table(("Rule", "Limit", "Measured", "Advice"), rows), after]


def _status_api() -> list[str]:
    about = "Paths of the [status page](watch.md#the-status-page). Times are seconds since 1970 by the chief's clock. "
    about += "Unknown values are null, and so is what a silent task measures. New keys may appear within a `version`."
    keys = [(_code(key), _cell(text)) for key, text in status_json.KEYS.items()]
    return [
        "## Status API",
        about,
        _table(("Path", "Content"), [(_code(path), text) for path, text in status_json.PATHS.items()]),
        "### /api/status",
        f"```json\n{_json(status_json.STATUS)}\n```",
        _table(("Key", "Meaning"), keys),
        "### /api/history",
        f"```json\n{_json(status_json.HISTORY)}\n```",
    ]


def _json(value: Any) -> str:
    """Returns JSON in which each key of the answer begins a line; long lines are broken between values."""
    lines = []
    for key, part in value.items():
        text = re.sub(r'"[^"]*"(: )?', lambda found: found[0].replace(" ", "\0"), json.dumps({key: part})[1:-1])
        lines += textwrap.wrap(
            text + ",",
            116,
            initial_indent="  ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "{\n" + "\n".join(lines).replace("\0", " ").removesuffix(",") + "\n}"


def _prometheus() -> list[str]:
    from ps_train.observe.status import prometheus
    from ps_train.training.tasks.displays import displays

    rows = [(_code(f"ps_train_{name}"), help) for name, help in prometheus.described(displays()).items()]
    about = "`/metrics` of the [status page](watch.md#prometheus). A metric is absent while its value is unknown."
    return ["## Prometheus", about, _table(("Metric", "Meaning"), rows)]


def _optimizers() -> list[str]:
    names: dict[str, list[str]] = {}
    for name, arguments in optimizer_arguments.ARGUMENTS.items():
        defaults = optimizer_arguments.with_defaults(name).split(", ") if arguments else []
        allowed = [re.sub("^a number (of )?", "", one.check.allowed) for one in arguments.values()]
        takes = "; ".join(f"`{text}` ({check})" for text, check in zip(defaults, allowed, strict=True))
        names.setdefault(takes or "none", []).append(_code(name))
    rows = [(", ".join(same), takes) for takes, same in names.items()]
    about = "`--optimizer=NAME`, and `--optimizer_arg=ARGUMENT=VALUE` for each argument that differs from its default."
    return ["## Optimizers", about, _table(("Name", "Arguments, defaults and allowed values"), rows)]


def _python_api() -> list[str]:
    about = "`python -m pydoc NAME` explains every argument. Shapes are in brackets."
    return ["## Python API", about, *_described_module(ps_train)]


def _described_module(module: types.ModuleType) -> list[str]:
    """Returns the descriptions of a module's public names, then those of its public modules."""
    name, parts, later = module.__name__, [], []
    members = {key: getattr(module, key) for key in module.__all__}
    modules = {key: value for key, value in members.items() if isinstance(value, types.ModuleType)}
    if name in _LISTED:
        names = [f"{key}.{inner}" for key, value in modules.items() for inner in value.__all__]
        names = [*(key for key in members if key not in modules), *names]
        return [f"### {name}", f"{', '.join(map(_code, names))}: {_LISTED[name]}."]
    entries = [_entry(key, value) for key, value in members.items() if key not in modules]
    if entries := [entry for entry in entries if entry]:
        more = [f"See [{_PAGES[name].partition('#')[0]}]({link(_PAGES[name])})."] if name in _PAGES else []
        parts = [f"### {name}", *more, "\n".join(entries)]
    for value in modules.values():
        later += _described_module(value)
    return parts + later


def _entry(name: str, value: Any) -> str:
    """Returns the lines about a public name; "" for an error or a constant."""
    if name in _DESCRIBED_ELSEWHERE:
        return f"- {_DESCRIBED_ELSEWHERE[name]}"
    if not callable(value) or (isinstance(value, type) and issubclass(value, Exception)):
        return ""
    lines = [f"- {_line(name, value)}"]
    if name == "Model":
        attributes = _section(inspect.getdoc(value), "Attributes")
        lines += [f"  - `{key}`: {_cell(text)}" for key, text in attributes.items()]
    if name in _WITH_METHODS:
        methods = {key: method for key, method in vars(value).items() if inspect.isfunction(method)}
        lines += [f"  - {_line(key, one)}" for key, one in methods.items() if key[0] != "_" and key not in _INTERNAL]
    return "\n".join(lines)


_WITH_METHODS = ("FitResult", "Model", "Served", "UnboundedSource")
_INTERNAL = ("place", "strings", "examples", "chunks", "epochs", "use_flags", "notes", "saved_values", "slot_values")
"""Classes whose methods users define or call, and methods that they do not."""


def _line(name: str, value: Any) -> str:
    """Returns the signature, the first sentences and the shapes of a function or class."""
    doc = inspect.getdoc(value)
    return f"`{name}{_signature(value)}`: {_summary(doc)} {_shapes(doc)}".rstrip()


def _signature(value: Any) -> str:
    """Returns the arguments with their defaults, without `self` and types; "" for a class that inherits them."""
    if isinstance(value, type) and not {"__init__", "_fields"} & vars(value).keys():
        return ""
    found = inspect.signature(value)
    parameters = [one.replace(annotation=one.empty) for key, one in found.parameters.items() if key != "self"]
    return str(found.replace(parameters=parameters, return_annotation=found.empty)).replace("<factory>", "{}")


def _summary(doc: str | None) -> str:
    """Returns the first line of a docstring, without the `Returns` that begins it."""
    first = " ".join((doc or "").partition("\n\n")[0].split())
    first = re.sub(r"^Returns (the |an? )?(\w)", lambda found: (found[1] or "") + found[2], first)
    return _cell(first[:1].upper() + first[1:])


def _section(doc: str | None, title: str) -> dict[str, str]:
    """Returns the names and texts of a section of a docstring."""
    found = re.search(rf"^{title}:\n((?:  .*\n?|\n)*)", doc or "", re.MULTILINE)
    items = re.findall(r"^  (\**\w+): (.*(?:\n    .*)*)", found[1] if found else "", re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in items}


def _shapes(doc: str | None) -> str:
    """Returns the shapes of arguments, as "`labels`, `scores` [batch]."; "" without any."""
    found: dict[str, list[str]] = {}
    for name, text in _section(doc, "Args").items():
        shape = re.search(r"\[(?:batch|n|rows|classes)\b[^\]]*\]", text)
        if shape and name not in ("parse", "fields"):  # theirs are shapes of what a function gets
            found.setdefault(shape[0], []).append(f"`{name}`")
    return "; ".join(f"{', '.join(names)} {shape}" for shape, names in found.items()) + "." if found else ""


def _files() -> list[str]:
    from ps_train.engine.run_directory.run_files import FILES

    about = (
        "A [model directory](checkpoints.md#files-of-a-run) has these files. `--log_dir` gets `JOB_INDEX.log` of each "
    )
    about += "task, and `JOB_INDEX.error.json` of a failed one."
    return ["## Files", about, _table(("Name", "Content"), [(_code(file.name), file.about) for file in FILES])]


_ENVIRONMENT = {
    "TF_CONFIG": "Cluster and task, as in TensorFlow; `--cluster_from` has other sources.",
    "PS_TRAIN_ALLOW_PUBLIC_PORTS": "1: as `--allow_public_ports`, for scripts too.",
    "CUDA_VISIBLE_DEVICES": "Set to -1 for a ps, which uses no GPU.",
    "TF_NUM_INTRAOP_THREADS": "Cores divided by the host's workers, unless you set it; `TF_NUM_INTEROP_THREADS` too.",
    "TF_CPP_MIN_LOG_LEVEL": "3, unless you set it or `--verbose`.",
    "TF_GRPC_REUSE_PORT": "Removed: two servers would share a port silently.",
    "no_proxy": "The cluster's hosts are added if a proxy is set: gRPC would send even localhost through it.",
    "TMPDIR": "Place of downloaded files, and of checkpoints on their way to an object store.",
}
"""Environment variables, which no table of the code has."""


def _environment() -> list[str]:
    about = "ps_train reads or changes these variables; `--verbose` prints the changes."
    rows = [(_code(name), text) for name, text in _ENVIRONMENT.items()]
    return ["## Environment", about, _table(("Variable", "Meaning"), rows)]


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["-"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |").replace("|  |", "| |") for line in lines)


def _code(text: Any) -> str:
    return f"`{text}`"


def _cell(text: str) -> str:
    """Returns a text for Markdown: in one line, and nothing in it is a mark."""
    text = re.sub(r"(?<!`)(--[a-z_0-9]+(?:=[\w:.,]*\w)?)(?!`)", r"`\1`", " ".join(text.split()))
    parts = text.split("`")
    return "`".join(part if index % 2 else re.sub(r"([*|<])", r"\\\1", part) for index, part in enumerate(parts))


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join(parts) + "\n"


PAGES = {"flags": flags_page, "reference": reference_page}
"""Name of a page to the function that makes it."""


def main() -> None:
    """Writes the pages."""
    import_quietly()
    for name, make in PAGES.items():
        (DOCS / f"{name}.md").write_text(make())


if __name__ == "__main__":
    main()
