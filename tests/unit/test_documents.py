"""Links of documents lead somewhere, and the files that they name exist."""

from __future__ import annotations

import pathlib
import re

import ps_train
from ps_train.commands.help.pages import Page
from ps_train.config.fields import job_fields
from ps_train.config.job import Job
from ps_train.config.refusals import REFUSALS

PACKAGE = pathlib.Path(ps_train.__file__).parent
ROOT = PACKAGE.parent
DOCS = ROOT / "docs"
FOLDERS = ["docs", "deploy", "benchmarks", "tests"]
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`((?:[a-z0-9_]+/)+[A-Za-z0-9_]+\.(?:py|md)|(?:ps_train|tests)/(?:[a-z0-9_]+/)*)`")


def anchors_of(text):
    """Returns the anchors that GitHub gives to the headings of a page, and those that the page names."""
    return {*Page(text).headings(), *re.findall(r'<a name="([^"]+)">', text)}


def broken_links(page):
    """Returns the links of a page that lead nowhere; those to other hosts are not followed."""
    found = []
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not re.match(r"https?:", link) and not (
            target.exists() and (not anchor or anchor in anchors_of(target.read_text()))
        ):
            found.append(link)
    return found


def missing_files(page):
    """Returns the paths in a page's text that are neither in the repository nor in the package."""
    paths = FILE.findall(FENCE.sub("", page.read_text()))
    return [path for path in paths if not (ROOT / path).exists() and not (PACKAGE / path).exists()]


def by_page(problems_of, pages):
    """Returns the problems of each page that has any."""
    found = {str(page.relative_to(ROOT)): problems_of(page) for page in pages}
    return {page: problems for page, problems in found.items() if problems}


def test_a_broken_link_and_a_missing_file_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A b, `c`\n[x](#a-b-c) [x](page.md#a) [x](no.md)\n```\n[x](no)\n```\n`engine/no.py` `tests/no/` `a/b/`\n"
    )
    assert broken_links(page) == ["page.md#a", "no.md"]
    assert missing_files(page) == ["engine/no.py", "tests/no/"]


def test_every_link_leads_somewhere():
    assert by_page(broken_links, PAGES) == {}


def test_every_file_that_a_document_names_exists():
    assert by_page(missing_files, [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]) == {}


def test_the_page_of_racks_has_every_flag_that_is_not_possible_with_them():
    section = (DOCS / "hosts.md").read_text().partition("\n## Racks\n")[2].partition("\n## ")[0]
    names = {name for row in REFUSALS if "{racks}" in row.text for name in re.findall(r"{(\w+)}", row.text)}
    flags = names & {field.name for field in job_fields(Job)}
    assert len(flags) > 8 and [name for name in flags if f"`--{name}" not in section] == []
