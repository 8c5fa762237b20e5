"""Commands of the pages, compared with what there is: verbs, flags and their values, scripts, modules, public names."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import pathlib
import re
import shlex

from ps_train.base.errors import ConfigError
from ps_train.config import flags
from ps_train.config.fields import job_fields
from ps_train.config.job import Job
from ps_train.config.verbs import VERBS

ROOT = pathlib.Path(__file__).parents[2]
_WITH_JOB = {"doctor", "firewall", "launch", "tune"}
"""Verbs that take the flags of a job besides their own."""

_ENDS = re.compile(r"\s*(?:&&|\|\||[;|&\n])\s*")


def commands_of(text: str) -> list[list[str]]:
    """Returns the words of each command of a bash block."""
    text = re.sub(r"<<'?(\w+)'?.*?^\1$", "", text.replace("\\\n", " "), flags=re.MULTILINE | re.DOTALL)
    found = []
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&<>()")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set(";|&()"):
                found.append(words)
                words = []
            else:
                words.append(word)
    return [words for words in map(_plain, found) if words]


def _plain(words: list[str]) -> list[str]:
    """Returns a command without assignments, redirections and what stands before `python -m`."""
    kept: list[str] = []
    skip = False
    for word in words:
        if set(word) <= set("<>&"):
            skip = True
            if kept and kept[-1].isdigit():  # the 2 of 2>&1
                kept.pop()
        elif skip:
            skip = False
        elif kept or not re.fullmatch(r"\w+=.*", word, re.DOTALL):
            kept.append(word)
    for index in range(len(kept) - 1):
        if re.fullmatch(r"(?:.*/)?python3?", kept[index]) and kept[index + 1] == "-m":
            return ["python", *kept[index + 1 :]]
    return kept


def problems_of(text: str, files: set[str]) -> list[str]:
    """Returns what is wrong with the commands of a bash block.

    Args:
      text: the block.
      files: names of the files that the page makes.
    """
    found = []
    for words in commands_of(text):
        if words[:2] == ["python", "-m"] and len(words) > 2:
            found += _module_problems(words[2], words[3:])
        elif words[0] in ("./run_ps.sh", "./run_worker.sh", "./run_local.sh"):
            found += _job_problems(words[1:])
        else:
            path = words[1] if words[0] == "python" and len(words) > 1 else words[0]
            if path.endswith((".sh", ".py")) and path not in files and not (ROOT / path).exists():
                found.append(f"{path}: there is no such file")
    return found


def _module_problems(module: str, arguments: list[str]) -> list[str]:
    if module == "ps_train":
        if arguments and not arguments[0].startswith("-"):
            return _verb_problems(arguments[0], arguments[1:])
        return _job_problems(arguments)
    if module.split(".")[0] in ("ps_train", "tests", "examples", "benchmarks"):
        with contextlib.suppress(ModuleNotFoundError):
            if importlib.util.find_spec(module) is not None:
                return []
        return [f"python -m {module}: there is no such module"]
    return []


def _verb_problems(verb: str, arguments: list[str]) -> list[str]:
    if verb not in VERBS:
        return [f"{verb} is not a verb of python -m ps_train"]
    known = _options_of(verb)
    if verb == "run":  # its script has flags of its own
        script = next((i for i, word in enumerate(arguments) if not word.startswith("-")), len(arguments))
        arguments = arguments[:script]
    if verb == "firewall" and "--" in arguments:  # a command follows
        arguments = arguments[: arguments.index("--")]
    own = [word for word in arguments if _name(word) in known]
    others = [word for word in arguments if word not in own and word.startswith("--") and word != "--"]
    if verb in _WITH_JOB:
        return _job_problems(others)
    return [f"{verb} {word}: there is no such flag" for word in others if _name(word) not in _job_names()]


def _job_problems(arguments: list[str]) -> list[str]:
    """Returns what is wrong with the flags of a job; those with a placeholder of the shell are looked up by name."""
    fields = {field.name for field in job_fields(Job)} | {"job_name", "task_index", "flagfile"}
    unknown = [word for word in arguments if word.startswith("--") and _name(word).removeprefix("no") not in fields]
    unknown = [word for word in unknown if _name(word) not in fields | {"help", "helpfull", "version"}]
    if unknown:
        return [f"{word}: there is no such flag" for word in unknown]
    whole = [word for word in arguments if not re.search(r"[$<{]|\.\.\.|--help|--version", word)]
    if whole != arguments or any(word.startswith("--flagfile") for word in arguments):  # the cluster may be elsewhere
        whole = [word for word in whole if _name(word) not in ("job_name", "task_index", "flagfile")]
    try:
        flags.parse(whole, {})
    except ConfigError as error:
        return [str(error)]
    return []


def _job_names() -> set[str]:
    return {field.name for field in job_fields(Job)}


def _name(word: str) -> str:
    return word.removeprefix("--").partition("=")[0]


@functools.cache
def _options_of(verb: str) -> set[str]:
    """Returns the names of a verb's own flags."""
    parser = VERBS[verb].load_parser()
    return set(parser.option_names) if parser else set()
