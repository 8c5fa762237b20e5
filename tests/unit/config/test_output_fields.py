"""Flags about output whose values have a form of their own."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.config.job import Job
from ps_train.config.output_fields import parse_profile


@pytest.mark.parametrize(("text", "expected"), [("200:20", (200, 20)), ("0:1", (0, 1)), ("5:1000", (5, 1000))])
def test_a_profile_is_a_step_and_a_number_of_steps(text, expected):
    assert parse_profile(text) == expected
    assert Job(profile=text).profile == text


@pytest.mark.parametrize(
    "text", ["200", "200:", ":20", "200:0", "200:1001", "-1:20", "2e2:20", "1:2:3", " 200:20", "a:b"]
)
def test_another_profile_is_refused(text):
    assert parse_profile(text) is None
    with pytest.raises(ConfigError, match="is not valid: use STEP:COUNT with 1 to 1000 steps, for example 200:20"):
        Job(profile=text)


@pytest.mark.parametrize("port", [-2, 65536])
def test_a_status_port_is_a_port(port):
    with pytest.raises(ConfigError, match=f"status_port={port} is not valid: use -1, or a number from 0 to 65535"):
        Job(status_port=port)
