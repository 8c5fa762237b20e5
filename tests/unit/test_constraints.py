"""constraints.txt: one version of each package, and of everything that setup.py requires."""

from __future__ import annotations

import pathlib
import runpy

import pytest
import setuptools
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = pathlib.Path(__file__).parents[2]
LINES = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]


@pytest.fixture
def required(monkeypatch):
    given = {}
    monkeypatch.setattr(setuptools, "setup", given.update)
    runpy.run_path(str(ROOT / "setup.py"))
    return [*given["install_requires"], *(one for some in given["extras_require"].values() for one in some)]


def constraints():
    found = {}
    for line in LINES:
        requirement = Requirement(line)
        (only,) = requirement.specifier
        assert only.operator == "==" and not requirement.extras and requirement.url is None, line
        assert canonicalize_name(requirement.name) not in found, line
        found[canonicalize_name(requirement.name)] = Version(only.version)
    return found


def test_each_line_gives_a_package_one_version():
    assert len(constraints()) == len(LINES) > 40


def test_every_requirement_has_a_version_that_it_allows(required):
    versions = constraints()
    assert "tensorflow>=2.16" in required and "hypothesis" in required
    for text in required:
        requirement = Requirement(text)
        assert versions[canonicalize_name(requirement.name)] in requirement.specifier, text
