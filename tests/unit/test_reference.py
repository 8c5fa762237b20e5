"""The pages that are made from the code are those of the present code."""

from __future__ import annotations

import re

import pytest

from scripts import reference


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_is_the_one_that_the_code_makes(name):
    kept, made = (reference.DOCS / f"{name}.md").read_text().splitlines(), reference.PAGES[name]().splitlines()
    other = [line for line in kept if line not in made] + [line for line in made if line not in kept]
    is_fresh = kept == made
    assert is_fresh, f"docs/{name}.md is stale: run python scripts/reference.py (another line: {other[:1]})"


def test_a_heading_has_an_address_also_on_a_page_beside_the_folder():
    assert reference.link("checkpoints#save") == "checkpoints.md#save"
    assert reference.link("SECURITY#firewall") == "../SECURITY.md#firewall"


def test_the_headings_that_other_pages_link_to_are_there():
    headings = re.findall(r"^## (.*)", (reference.DOCS / "reference.md").read_text(), re.MULTILINE)
    fixed = ["Exit codes", "Errors", "Events", "Health rules", "Status API", "Prometheus", "Optimizers", "Python API"]
    assert headings[:9] == [*fixed, "Files"]
