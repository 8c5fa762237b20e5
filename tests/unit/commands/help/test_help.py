"""The verb `help`."""

from __future__ import annotations

import io
import pathlib
import subprocess
import sys

import pytest

from ps_train.base.console import Console
from ps_train.commands.help import help as verb


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """Returns the exit code, the output and the errors of the verb, with two pages."""
    texts = {"README": "# ps_train\n\nTrain models. More.", "hosts": "# Hosts\n\nStart a job.\n\n## Over ssh\n\nssh"}
    for name, text in texts.items():
        (tmp_path / f"{name}.md").write_text(text)
    monkeypatch.setattr(verb, "find_pages", lambda: {name: tmp_path / f"{name}.md" for name in texts})

    def run(*arguments):
        output, errors = io.StringIO(), io.StringIO()
        code = verb.help(arguments, Console(output, errors))
        return code, output.getvalue(), errors.getvalue()

    return run


def test_the_list_has_each_page_with_its_first_sentence(shown):
    code, output, errors = shown()
    assert output.splitlines()[:2] == ["README  Train models.", "hosts   Start a job."] and (code, errors) == (0, "")
    assert output.endswith("To read one: python -m ps_train help PAGE, or python -m ps_train help PAGE#HEADING\n")


@pytest.mark.parametrize("name", ["hosts", "HOSTS", "docs/hosts.md"])
def test_a_page_is_shown_as_it_is(shown, name):
    assert shown(name) == (0, "# Hosts\n\nStart a job.\n\n## Over ssh\n\nssh\n", "")


@pytest.mark.parametrize("heading", ["over-ssh", "Over ssh"])
def test_a_section_is_shown_alone(shown, heading):
    assert shown(f"hosts#{heading}") == (0, "## Over ssh\n\nssh\n", "")


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ("host", "there is no page 'host': did you mean hosts?"),
        ("x", "there is no page 'x': use one of readme, hosts."),
        ("hosts#over-sh", "the page hosts has no heading 'over-sh': did you mean over-ssh?"),
        ("hosts#zzz", "the page hosts has no heading 'zzz': use one of over-ssh."),
    ],
)
def test_an_unknown_name_is_one_line_with_the_nearest(shown, wanted, error):
    code, output, errors = shown(wanted)
    assert (code, output) == (2, "") and errors.startswith(f"ps_train: error: {error}") and errors.count("\n") == 1


def test_without_pages_it_says_where_they_are(shown, monkeypatch):
    monkeypatch.setattr(verb, "find_pages", dict)
    code, _, errors = shown()
    assert code == 2 and "the pages are not beside this copy of ps_train" in errors


def test_a_reader_that_stops_early_is_no_error():
    command = f"{sys.executable} -m ps_train help README | true; echo ${{PIPESTATUS[0]}}"
    root = pathlib.Path(verb.__file__).parents[3]
    done = subprocess.run(["bash", "-c", command], cwd=root, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("0\n", "")
