"""The list of public programs: names, expressions, and the page that says when each was last run."""

from __future__ import annotations

import re

from tests.support.machine.processes import ROOT
from tests.trials.programs.trial import PROGRAMS


def test_each_program_has_a_name_of_its_own_and_stands_in_the_page():
    page = (ROOT / "tests" / "trials" / "programs" / "README.md").read_text()
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
    for program in PROGRAMS:
        re.compile(program.end)
        assert program.repository.partition("/")[2] in page, program.name
