"""The text of --push_codec and --pull_codec."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.config.codec_spec import CodecSpec, parse_codec
from ps_train.config.job import Job


def test_codecs_and_their_shares_are_read():
    assert parse_codec("none") == []
    assert parse_codec("int8") == [CodecSpec("int8")]
    assert parse_codec("top_k:0.01, bfloat16") == [CodecSpec("top_k", 0.01), CodecSpec("bfloat16")]
    assert parse_codec("top_k:1") == [CodecSpec("top_k", 1.0)]


@pytest.mark.parametrize(
    "text",
    [
        *("", "gzip", "top_k", "top_k:", "top_k:0", "top_k:1.5", "top_k:nan", "top_k:x", "int8:0.5", "top_k:-0.1"),
        *(
            " int8",
            "int8\n",
            "int8,int8",
            "int8,top_k:0.1",
            "top_k:0.1,top_k:0.1",
            "none,int8",
            "top_k:0.1,none",
            "top_k:0.1,int8,int8",
        ),
    ],
)
def test_other_texts_are_refused_in_one_line(text):
    with pytest.raises(ConfigError, match=r"push_codec=.* use none, bfloat16") as error:
        Job(push_codec=text, sources={"push_codec": "the command line"})
    assert "from the command line" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["int4", "top_k:0.1", "top_k:0.1,int8", "float64", ""])
def test_a_pull_is_whole_and_of_a_known_type(text):
    with pytest.raises(ConfigError, match=r"pull_codec=.* use one of none, bfloat16, float16, int8"):
        Job(pull_codec=text)
