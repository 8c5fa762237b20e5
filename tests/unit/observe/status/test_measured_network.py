"""The file with the throughput that the doctor has measured."""

from __future__ import annotations

import pytest

from ps_train.observe.status.measured_network import read_network, write_network


def test_what_was_written_is_read(tmp_path):
    directory = tmp_path / "run"
    write_network(str(directory), {"ps:0": (450e6, 160e6)})
    assert read_network(str(directory)) == {"ps:0": (450e6, 160e6)}


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"network_bytes_per_sec": 7}', '{"network_bytes_per_sec": {"a": [1]}}']
)
def test_another_file_counts_as_none(tmp_path, text):
    (tmp_path / "doctor.json").write_text(text)
    assert read_network(str(tmp_path)) == {}
    assert read_network(str(tmp_path / "missing")) == {}
