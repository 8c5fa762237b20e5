"""Tables of nft with a program in its place; `tests/process/test_firewall.py` uses the real one."""

from __future__ import annotations

import os

import pytest

from ps_train.base.errors import ConfigError
from ps_train.commands.firewall import nftables
from ps_train.commands.firewall.nftables import FirewallTable
from ps_train.commands.firewall.rules import removal

FAKE = """#!/bin/sh
[ -e denied ] && { echo "Operation not permitted" >&2; exit 1; }
[ "$1" = -f ] && cat > loaded
exit 0
"""


@pytest.fixture(autouse=True)
def fake_nft(tmp_path, monkeypatch):
    program = tmp_path / "nft"
    program.write_text(FAKE)
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(nftables, "LOCK_DIRECTORY", str(tmp_path))
    return program


def test_one_process_has_a_table_until_it_releases_it(tmp_path):
    first, second = FirewallTable("ps_train_x"), FirewallTable("ps_train_x")
    first.claim()
    with pytest.raises(ConfigError, match=f"process {os.getpid()} applies the rules of this job"):
        second.claim()
    FirewallTable("ps_train_y").claim()
    first.release()
    second.claim()
    second.release()
    assert not list(tmp_path.glob("ps_train_x.*.lock"))


def test_rules_go_to_nft_and_its_refusal_is_one_line(tmp_path):
    table = FirewallTable("ps_train_x")
    table.load("table inet ps_train_x {}\n")
    assert (tmp_path / "loaded").read_text() == "table inet ps_train_x {}\n" and table.is_there()
    table.remove()
    assert (tmp_path / "loaded").read_text() == removal("ps_train_x")
    (tmp_path / "denied").touch()
    assert not table.is_there()
    with pytest.raises(ConfigError, match=r"nft refuses the rules .*Operation not permitted"):
        table.remove()
    with pytest.raises(ConfigError, match=r"Operation not permitted.*as root"):
        table.claim()


def test_a_missing_program_is_said_with_its_package(fake_nft, monkeypatch):
    fake_nft.unlink()
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(nftables, "_ALSO_IN", "")
    with pytest.raises(ConfigError, match="install nftables"):
        FirewallTable("ps_train_x").claim()
