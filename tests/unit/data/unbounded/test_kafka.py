"""Against the mock cluster of librdkafka, which speaks the real protocol.  It has no search by times."""

from __future__ import annotations

import datetime
import sys
import time

import pytest

from ps_train import ConfigError, DataError, Kafka
from ps_train.base.errors import UnreachableError
from ps_train.data.unbounded import kafka
from tests.support.data.unbounded import parse
from tests.support.machine.processes import eventually

pytest.importorskip("confluent_kafka")

from tests.support.data.kafka import Brokers


@pytest.fixture(scope="module")
def brokers():
    return Brokers(2)


@pytest.fixture
def topic_of(brokers):
    made = []

    def make(topic, **given):
        made.append(Kafka(topic, given.pop("servers", brokers.servers), parse, **given))
        return made[-1]

    yield make
    for one in made:
        one.close()


def rows_of(source, partition, offset, n=1000):
    return eventually(lambda: source.read(partition, offset, n), 20, "rows")


def offsets(rows):
    return [row.offset for row in rows]


def test_each_partition_is_read_from_any_offset_on(brokers, topic_of):
    brokers.send("read", range(40), key=b"k", timestamp=1_700_000_000_000)
    source = topic_of("read")
    source.check()
    assert source.partitions() == 4
    row = rows_of(source, 1, 0, 3)[0]
    assert row.value == b"1" and row.key == b"k" and row.timestamp == 1_700_000_000_000
    assert offsets(rows_of(source, 1, 3, 3)) == [3, 4, 5]  # goes on
    assert offsets(rows_of(source, 2, 8)) == [8, 9]
    assert offsets(rows_of(source, 1, 2, 2)) == [2, 3]  # goes back
    assert offsets(rows_of(source, 1, 4, 2)) == [4, 5]
    assert source.read(0, 10, 5) == []
    assert (source.lag(1, 4), source.lag(1, 10), source.lag(3, 0)) == (6.0, 0.0, None)  # none of a partition not read
    brokers.send("read", [40])
    assert [row.value for row in rows_of(source, 0, 10)] == [b"40"]


def test_more_messages_than_are_held_come_in_order(brokers, topic_of, monkeypatch):
    monkeypatch.setattr(kafka, "_MOST_HELD", 50)
    brokers.send("many", range(4000))
    source = topic_of("many")
    reached = dict.fromkeys(range(4), 0)
    deadline = time.monotonic() + 30
    while min(reached.values()) < 1000 and time.monotonic() < deadline:
        for partition, offset in reached.items():
            rows = source.read(partition, offset, 7)
            assert offsets(rows) == list(range(offset, offset + len(rows)))
            assert [int(row.value) for row in rows] == [row.offset * 4 + partition for row in rows]
            reached[partition] += len(rows)
    assert reached == dict.fromkeys(range(4), 1000)


def test_large_messages_and_messages_without_a_value_are_read(brokers, topic_of):
    large = b"x" * 900_000
    brokers.send("large", [large, None, large], partitions=1)
    source = topic_of("large", options={"fetch.message.max.bytes": 1000})
    values, offset = [], 0
    while len(values) < 3:
        rows = rows_of(source, 0, offset)
        values, offset = values + [row.value for row in rows], rows[-1].after
    assert values == [large, None, large]


def test_a_run_begins_at_the_earliest_or_the_latest_message(brokers, topic_of):
    brokers.send("start", range(8))
    assert topic_of("start").first_offset(0, is_new=False) == 0
    assert topic_of("start", start="latest").first_offset(0, is_new=False) == 2
    assert topic_of("start", start="latest").first_offset(0, is_new=True) == 0


def test_an_end_that_is_over_is_the_newest_message_and_a_later_one_is_not_known(brokers, topic_of):
    brokers.send("end", range(8))
    assert topic_of("end").end_offset(0) is None
    assert topic_of("end", end=1.0).end_offset(0) == 2
    assert topic_of("end", end=time.time() + 1000).end_offset(0) is None


def test_an_offset_that_is_not_there_is_refused_with_those_that_are(brokers, topic_of):
    brokers.send("gone", range(8))
    source = topic_of("gone")
    with pytest.raises(DataError, match=r"topic gone partition 1 offset 7 is the next to use, but .* offsets above 2"):
        rows_of(source, 1, 7)


@pytest.mark.parametrize("skips", [False, True])
def test_deleted_messages_end_the_job_unless_it_may_go_on_without_them(brokers, topic_of, monkeypatch, caplog, skips):
    """The mock cluster deletes nothing, so an offset beyond the newest stands for one before the earliest."""
    topic = f"deleted-{skips}"
    brokers.send(topic, range(8))
    source = topic_of(topic, skip_lost=skips)
    monkeypatch.setattr(source, "_watermarks", lambda partition: (9, 20))
    if not skips:
        with pytest.raises(DataError, match=r"offset 7 is the next to use, but the earliest .* is 9: 2 offsets have"):
            rows_of(source, 1, 7)
        return
    assert rows_of(source, 1, 7)[0] == (None, 7, 9, b"", 0)
    assert "2 offsets have been deleted (retention); continuing at 9" in caplog.text


def test_an_unknown_topic_is_refused_with_names_like_it(brokers, topic_of):
    brokers.send("clicks", [1])
    with pytest.raises(DataError, match=r"have no topic 'click' \(did you mean clicks\?\)"):
        topic_of("click").check()


def test_brokers_that_are_not_there_cannot_be_reached(topic_of, monkeypatch):
    monkeypatch.setattr(kafka, "_START_SECS", 0.5)
    monkeypatch.setattr(kafka, "_CALL_SECS", 0.5)
    source = topic_of("x", servers="127.0.0.1:1")
    with pytest.raises(UnreachableError, match=r"topic x: the brokers 127\.0\.0\.1:1"):
        source.check()
    with pytest.raises(ConnectionError):
        source.partitions()


@pytest.mark.parametrize(
    "given, error, text",
    [
        ({"start": "newest"}, DataError, 'start=\'newest\' is not valid: use "earliest", "latest", a time'),
        ({"start": 5.5, "end": 5}, DataError, "start=5.5 is not before end=5: no message is between them"),
        ({"start": 9e9}, DataError, "start=9000000000.0 is in the future"),
        ({"end": "2026-01-31"}, DataError, "end='2026-01-31' has no time zone"),
        ({"end": 1_700_000_000_000}, DataError, "use a time in seconds since 1970"),
        ({"options": {"enable.auto.commit": True}}, DataError, "ps_train keeps the offsets itself"),
        ({"fields": ["values"]}, DataError, "fields="),
    ],
)
def test_wrong_arguments_are_refused(topic_of, given, error, text):
    with pytest.raises(error, match=text):
        topic_of("x", **given)


def test_wrong_options_are_refused_when_the_client_is_made(topic_of):
    with pytest.raises(ConfigError, match=r"Kafka.'x'.*no.such.option"):
        topic_of("x", options={"no.such.option": 1}).check()


def test_times_are_milliseconds():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    moments = (1.5, "1970-01-01T00:00:01.500+00:00", datetime.datetime(1970, 1, 1, 2, 0, 1, 500_000, zone))
    assert [kafka._milliseconds(moment, "start") for moment in moments] == [1500] * 3


def test_a_missing_client_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[kafka\]'"):
        Kafka("x", "y", parse)


def test_servers_that_are_empty_are_refused():
    for given in ("", " , ", None):
        with pytest.raises(DataError, match=r"servers=.* of Kafka is empty: give addresses"):
            Kafka("x", given, parse)
