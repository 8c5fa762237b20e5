"""The extras that messages name are those of setup.py, and no other file writes the command."""

from __future__ import annotations

import pathlib
import re
import runpy
from typing import get_args

import setuptools

from ps_train.base.extras import Extra, install

ROOT = pathlib.Path(__file__).parents[3]


def test_each_extra_is_in_setup_py(monkeypatch):
    given = {}
    monkeypatch.setattr(setuptools, "setup", given.update)
    runpy.run_path(str(ROOT / "setup.py"))
    assert {*get_args(Extra), "dev"} == {*given["extras_require"]}


def test_the_clone_is_installed_and_no_package_of_a_registry():
    assert install("parquet") == "pip install '.[parquet]' in a clone of ps_train"
    named = re.compile(r"ps_train\[|pip3? install (-\S+ )*['\"]?ps_train\b(?!-)")
    files = [
        *(ROOT / "ps_train").rglob("*.py"),
        *ROOT.glob("examples/**/*.*"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("*.md"),
    ]
    assert len(files) > 400
    assert [str(file) for file in files if named.search(file.read_text(errors="replace"))] == []
