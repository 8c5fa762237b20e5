"""Kafka's protocol on the loopback, by the mock cluster of librdkafka; and a model of numbers in a topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ps_train import Kafka
from tests.support.data.recording import Recording
from tests.support.data.unbounded import parse


class Brokers:
    """Brokers in this process, with topics of four partitions that are made by their first message.

    Attributes:
      servers: their addresses.
    """

    def __init__(self, brokers: int = 1) -> None:
        from confluent_kafka import Producer

        self.producer = Producer({"test.mock.num.brokers": brokers, "bootstrap.servers": "none", "log_level": 2})
        found = self.producer.list_topics(timeout=10).brokers.values()
        self.servers = ",".join(f"{broker.host}:{broker.port}" for broker in found)

    def send(self, topic: str, numbers: Iterable[int | bytes | None], partitions: int = 4, **given: Any) -> None:
        """Sends messages to partitions in turn, and waits for their delivery; None is a message without a value."""
        for index, number in enumerate(numbers):
            value = b"%d" % number if isinstance(number, int) else number
            self.producer.produce(topic, value=value, partition=index % partitions, **given)
            self.producer.poll(0)
        assert self.producer.flush(30) == 0


class RecordingMessages(Recording):
    """The numbers of a topic, each below `count`."""

    def __init__(
        self, servers: str, topic: str = "numbers", count: int = 1000, ones: bool = False, secs: float = 0.0,
        end: float = 0.0, start: str = "earliest",
    ) -> None:  # fmt: skip
        super().__init__(count, ones, secs)
        self.topic, self.servers, self.start, self.end = topic, servers, start, end

    def data(self, split, data_dir):
        if split != "train":
            return None
        return Kafka(self.topic, self.servers, parse, start=self.start, end=self.end or None)
