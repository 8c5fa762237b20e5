"""The pages of the documents: found in an installed package and in a clone, and read."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest

import ps_train
from ps_train.commands.help import pages
from ps_train.commands.help.pages import Page, find_pages, read_page, slug
from tests.unit.test_documents import anchors_of

TEXT = """# A page

![picture](p.svg)

Train [a model](models.md) on **your** machine. Then more.

## From raw `tf.train` scripts

first
```bash
# no heading
## nor this
```
### Below
below
## Next
next
"""


def test_a_clone_has_the_readme_first_and_the_pages():
    names = [*find_pages()]
    assert names[0].isupper() and "README" in names and len(names) > 10
    assert all(path.suffix == ".md" for path in find_pages().values())


def test_the_pages_of_an_installed_package_come_before_those_beside_it(tmp_path, monkeypatch):
    package = tmp_path / "ps_train"
    monkeypatch.setattr(pages, "_PACKAGE", package)
    assert find_pages() == {}
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "other.md").write_text("# Of another package")
    assert find_pages() == {}, "site-packages is no clone"
    (tmp_path / "setup.py").touch()
    assert [*find_pages()] == ["other"]
    (package / "docs").mkdir(parents=True)
    (package / "docs" / "hosts.md").touch()
    (package / "docs" / "README.md").touch()
    assert [*find_pages()] == ["README", "hosts"]


def test_the_anchors_are_those_of_the_links():
    for name, path in find_pages().items():
        assert {*read_page(path).headings()} <= anchors_of(path.read_text()), name


def named_in_the_package():
    """Returns the pages and headings that the package's texts name, with the file of each."""
    found = set()
    for path in pathlib.Path(ps_train.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                whole = re.fullmatch(r"[A-Za-z]+#[a-z0-9-]+", node.value)
                names = [whole[0]] if whole else re.findall(r"help:? ([A-Za-z]+#[a-z0-9-]+)", node.value)
                found |= {(name, path.name) for name in names}
    return found


def test_every_page_and_heading_that_the_package_names_exists():
    texts = {name: read_page(path) for name, path in find_pages().items()}
    named = named_in_the_package()
    assert len(named) > 60
    missing = {
        name
        for name, _ in named
        if (page := texts.get(name.partition("#")[0])) is None or name.partition("#")[2] not in page.headings()
    }
    assert sorted(missing) == []


def test_a_section_ends_at_the_next_heading_of_its_level():
    page = Page(TEXT)
    assert page.headings() == ["a-page", slug("From raw tf.train scripts"), "below", "next"]
    section = page.section("from-raw-tftrain-scripts")
    assert section.startswith("## From raw") and section.endswith("### Below\nbelow") and "## nor this" in section
    assert page.section("below") == "### Below\nbelow" and page.section("next") == "## Next\nnext"
    assert page.section("none") == ""


@pytest.mark.parametrize(
    ("text", "sentence"), [(TEXT, "Train a model on your machine."), ("# A\n\n## B", ""), ("One\nline", "One line")]
)
def test_the_first_sentence_is_in_plain_words(text, sentence):
    assert Page(text).first_sentence() == sentence


def test_remarks_for_writers_are_left_out(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("# A\n<!-- run: long -->\n```bash\nls\n```\n")
    assert read_page(path).text == "# A\n```bash\nls\n```\n"
