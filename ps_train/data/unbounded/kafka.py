"""Topics of Kafka as data without an end.

    def data(self, split, data_dir):
        return ps_train.Kafka("clicks", servers="broker-1:9092,broker-2:9092", parse=parse)

The client is confluent_kafka.  It assigns partitions itself and commits no offsets: ownership is that of dynamic
sharding, and the offsets are in the model's checkpoint.  So no consumer group decides what is read, or from where.
"""

from __future__ import annotations

import datetime
import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ps_train.base.errors import ConfigError, DataError, UnreachableError, nearest, one_line
from ps_train.base.extras import install
from ps_train.data.unbounded.source import Row, UnboundedSource

log = logging.getLogger(__name__)

_CALL_SECS, _START_SECS = 5.0, 20.0
"""Seconds that a question to the brokers may take, and the first one of a task."""

_POLL_SECS, _POLLED = 0.02, 1000
"""Seconds that one poll waits for messages, and their greatest number."""

_FETCH_MS = 100
"""Milliseconds that a broker waits for messages; a partition that another worker had is read after so long."""

_MOST_HELD = 4000
"""Messages of a partition after which no more are fetched until some are read."""

_LATE_SECS = 10.0
"""Seconds after the end's time in which messages with earlier times may still arrive."""

_MOST_AHEAD_SECS = 60.0
"""Seconds by which `start` may be after the present: clocks differ."""

_OWN = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "allow.auto.create.topics": False,
}
"""Settings of the client on which exactness depends."""

# Names of the client's errors.
_PARTITION_EOF = "_PARTITION_EOF"
_NO_OFFSET = ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE")
_LASTING = (
    "_AUTHENTICATION",
    "_SSL",
    "SASL_AUTHENTICATION_FAILED",
    "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
)

Moment = str | float | datetime.datetime


class Kafka(UnboundedSource):
    """The messages of a topic.  Needs `pip install '.[kafka]'` in a clone of ps_train, and --sharding=dynamic.

    A message without a value (a tombstone) is left out.

    Args:
      topic: name of the topic.
      servers: addresses of brokers, "host:port,host:port".
      parse: takes the values of n messages, string [n], and returns (features, labels): nested tensors [n, ...].  It
        may be called with n = 0.
      start: where a new run begins: "earliest", "latest", or a time.  A time is a datetime, an ISO text as
        "2026-01-31T00:00:00+00:00", or seconds since 1970; the first message of this time or a later one counts.
        A partition that is added later is read from its first message.
      end: a time at which the data end, before the first message of this time or a later one; None for no end.
      fields: names of the fields that `parse` gets in a dict: "value" and "key", string [n], and "timestamp", int64
        [n], ms since 1970.  Empty: `parse` gets the values alone.
      options: further settings of librdkafka, as {"security.protocol": "SASL_SSL", ...}.
      skip_lost: False ends the job if retention has deleted messages that were not used; True logs their number and
        goes on with the earliest message.

    Raises:
      ConfigError: confluent_kafka is not installed, or refuses the options.
      DataError: an argument is not valid.
    """

    def __init__(
        self,
        topic: str,
        servers: str,
        parse: Callable[[Any], Any],
        start: Moment = "earliest",
        end: Moment | None = None,
        fields: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        skip_lost: bool = False,
    ) -> None:
        super().__init__(topic, parse, fields)
        _check_client()
        for name, value in (("topic", topic), ("servers", servers)):
            if not isinstance(value, str) or not value.strip(" ,"):
                allowed = "the name of a topic" if name == "topic" else 'addresses, as "host:9092,host:9092"'
                raise DataError(f"{name}={value!r} of Kafka is empty: give {allowed}.")
        self._topic, self._servers, self._skip_lost = topic, servers, skip_lost
        self._start: str | int = "earliest" if start == "earliest" else "latest"
        if start not in ("earliest", "latest"):
            self._start = _milliseconds(start, "start")
        self._end = None if end is None else _milliseconds(end, "end")
        if isinstance(self._start, int):
            _check_start(self._start, self._end, start, end)
        if fixed := [name for name in options or () if name in _OWN]:
            raise DataError(f"options={{{fixed[0]!r}: ...}} is not possible: ps_train keeps the offsets itself.")
        own = {"bootstrap.servers": servers, "group.id": f"ps_train-{uuid.uuid4().hex}", "fetch.wait.max.ms": _FETCH_MS}
        self._options = {**own, **(options or {})}
        self._consumer: Any = None
        self._held: dict[int, deque[Row]] = {}
        self._next: dict[int, int] = {}  # offset of the next row that `read` returns
        self._paused: set[int] = set()

    def check(self) -> None:
        """Checks that the topic exists."""
        try:
            topics = self._call(lambda client: client.list_topics(timeout=_START_SECS)).topics
        except OSError as error:
            raise UnreachableError(f"topic {self._topic}: {one_line(error)}.") from None
        finally:
            self.close()
        if self._topic not in topics:
            hint = nearest(self._topic, topics, " (did you mean {}?)", most=3, joint=" or ")
            raise DataError(f"the brokers {self._servers} have no topic {self._topic!r}{hint}: create it first.")

    def partitions(self) -> int:
        """Returns the number of partitions of the topic."""
        metadata = self._call(lambda client: client.list_topics(self._topic, timeout=_CALL_SECS))
        found = metadata.topics.get(self._topic)
        if found is None or found.error is not None or not found.partitions:
            raise ConnectionError(f"the brokers {self._servers} have no topic {self._topic!r} now")
        return max(found.partitions) + 1

    def read(self, partition: int, offset: int, n: int) -> list[Row]:
        """Returns messages of a partition, and those of others are kept."""
        if self._next.get(partition) != offset:
            self.release(partition)
            self._call(lambda client: client.incremental_assign([self._place(partition, offset)]))
            self._held[partition], self._next[partition] = deque(), offset
        held = self._held[partition]
        if not held:
            self._resume(partition)
            self._poll()
        rows = [held.popleft() for _ in range(min(n, len(held)))]
        if rows:
            self._next[partition] = rows[-1].after
        return rows

    def first_offset(self, partition: int, is_new: bool) -> int:
        """Returns the offset where `start` begins."""
        low, high = self._watermarks(partition)
        if is_new or self._start == "earliest":
            return low
        return self._offset_at(partition, self._start, high) if isinstance(self._start, int) else high

    def end_offset(self, partition: int) -> int | None:
        """Returns the offset of the first message that is not before `end`, once there is one or it is late."""
        if self._end is None:
            return None
        found = self._offset_at(partition, self._end, -1)
        if found < 0 and time.time() > self._end / 1000 + _LATE_SECS:
            return self._watermarks(partition)[1]
        return found if found >= 0 else None

    def lag(self, partition: int, offset: int) -> float | None:
        """Returns the number of offsets from this one up to the newest that the client has heard of."""
        try:
            known = self._call(lambda client: client.get_watermark_offsets(self._place(partition), cached=True))
        except ConnectionError:  # nothing was read of it yet
            return None
        return None if known is None or known[1] < 0 else float(max(0, known[1] - offset))

    def release(self, partition: int) -> None:
        """Ends the fetching of a partition."""
        if self._next.pop(partition, None) is not None:
            self._held.pop(partition)
            self._paused.discard(partition)
            self._call(lambda client: client.incremental_unassign([self._place(partition)]))

    def close(self) -> None:
        """Closes the client."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer, self._next, self._held, self._paused = None, {}, {}, set()

    def place(self, partition: int, offset: int) -> str:
        """Returns the topic, the partition and the offset of a message."""
        return f"topic {self._topic} partition {partition} offset {offset}"

    def _poll(self) -> None:
        """Fetches messages of all partitions that are read."""
        failed: dict[int, Any] = {}
        for message in self._call(lambda client: client.consume(_POLLED, _POLL_SECS)):
            partition, error = message.partition(), message.error()
            held = self._held.get(partition)
            if error is not None and error.name() != _PARTITION_EOF:
                failed[-1 if partition is None else partition] = error
            elif held is not None:
                tail = held[-1].after if held else self._next[partition]
                if error is None:
                    key, (_, timestamp) = message.key() or b"", message.timestamp()
                    held.append(Row(message.value(), message.offset(), key=key, timestamp=timestamp))
                elif message.offset() > tail:  # the last offsets are not messages, as after a transaction
                    held.append(Row(None, tail, message.offset()))
        full = [one for one, held in self._held.items() if len(held) >= _MOST_HELD and one not in self._paused]
        if full:
            self._paused.update(full)
            self._call(lambda client: client.pause([self._place(one) for one in full]))
        for partition, error in failed.items():
            if error.name() in _NO_OFFSET:
                self._lost(partition)
            else:
                raise self._fault(error)

    def _lost(self, partition: int) -> None:
        """Handles that the next offset of a partition is not there."""
        held = self._held.get(partition)
        if held is None:
            return
        wanted = held[-1].after if held else self._next[partition]
        low, high = self._watermarks(partition)
        place = f"{self.place(partition, wanted)} is the next to use, but"
        if wanted > high:
            raise DataError(
                f"{place} the partition has no offsets above {high}: the topic has been made again; use another "
                "--model_dir."
            )
        if not self._skip_lost:
            raise DataError(
                f"{place} the earliest that is there is {low}: {low - wanted} offsets have been deleted (retention); "
                "use Kafka(..., skip_lost=True) to continue without them, or another --model_dir."
            )
        log.warning("%s %d offsets have been deleted (retention); continuing at %d", place, low - wanted, low)
        held.append(Row(None, wanted, low))
        self._call(lambda client: client.incremental_unassign([self._place(partition)]))
        self._call(lambda client: client.incremental_assign([self._place(partition, low)]))

    def _resume(self, partition: int) -> None:
        if partition in self._paused:
            self._paused.discard(partition)
            self._call(lambda client: client.resume([self._place(partition)]))

    def _watermarks(self, partition: int) -> tuple[int, int]:
        """Returns the earliest offset of a partition, and the one after the newest."""
        found = self._call(lambda client: client.get_watermark_offsets(self._place(partition), timeout=_CALL_SECS))
        if found is None:
            raise ConnectionError(f"the brokers {self._servers} do not answer")
        return found

    def _offset_at(self, partition: int, milliseconds: int, otherwise: int) -> int:
        """Returns the offset of the first message that is not before a time, or `otherwise`."""
        (found,) = self._call(
            lambda client: client.offsets_for_times([self._place(partition, milliseconds)], timeout=_CALL_SECS)
        )
        if found.error is not None:
            raise self._fault(found.error)
        return int(found.offset) if found.offset >= 0 else otherwise

    def _place(self, partition: int, offset: int = -1001) -> Any:
        from confluent_kafka import TopicPartition

        return TopicPartition(self._topic, partition, offset)

    def _call(self, function: Callable[[Any], Any]) -> Any:
        """Calls the client; raises OSError if the brokers do not answer now."""
        from confluent_kafka import Consumer, KafkaException

        try:
            if self._consumer is None:
                self._consumer = Consumer({**self._options, **_OWN}, logger=_CLIENT_LOG)
        except (KafkaException, ValueError, TypeError) as error:
            raise ConfigError(f"Kafka({self._topic!r}, ...): {one_line(error)}.") from None
        try:
            return function(self._consumer)
        except KafkaException as error:
            raise self._fault(error.args[0]) from None

    def _fault(self, error: Any) -> Exception:
        """Returns an error of the client as one of a source."""
        text = " ".join(error.str().split()).rstrip(".")
        if error.name() in _LASTING:
            return DataError(f"topic {self._topic} of {self._servers} cannot be read: {text}.")
        return ConnectionError(f"the brokers {self._servers}: {text}")


_CLIENT_LOG = logging.getLogger(f"{__name__}.client")
_CLIENT_LOG.setLevel(logging.CRITICAL)  # what matters comes as an error of a call


def _milliseconds(moment: Any, name: str) -> int:
    """Returns a time as ms since 1970."""
    given = moment
    if isinstance(moment, str):
        try:
            moment = datetime.datetime.fromisoformat(moment)
        except ValueError:
            raise DataError(
                f"{name}={given!r} is not valid: use "
                + ('"earliest", "latest", ' if name == "start" else "")
                + 'a time as "2026-01-31T00:00:00+00:00", a datetime, or seconds since 1970.'
            ) from None
    if isinstance(moment, datetime.datetime):
        if moment.tzinfo is None:
            raise DataError(f"{name}={given!r} has no time zone: end it with +00:00 for UTC.")
        return int(moment.timestamp() * 1000)
    if isinstance(moment, int | float) and not isinstance(moment, bool) and 0 <= moment < 1e11:
        return int(moment * 1000)
    raise DataError(f"{name}={given!r} is not valid: use a time in seconds since 1970, a datetime, or an ISO text.")


def _check_start(start: int, end: int | None, given: Moment, given_end: Moment | None) -> None:
    """Raises DataError for a start, in ms since 1970, that no message can have."""
    if end is not None and start >= end:
        raise DataError(f"start={given!r} is not before end={given_end!r}: no message is between them.")
    if start > (time.time() + _MOST_AHEAD_SECS) * 1000:
        raise DataError(
            f"start={given!r} is in the future: a message that comes before it would count, too; start the job later."
        )


def _check_client() -> None:
    try:
        import confluent_kafka  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"Kafka needs confluent_kafka: {install('kafka')} ({error}).") from None
