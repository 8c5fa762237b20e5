"""A small key-value store on each ps, in which the processes of a job write their records.

    store = KeyValueStore("grpc://127.0.0.1:2222", name="ps:0 (127.0.0.1:2222)", timeout_secs=5)
    store.set("greeting", "hello")
    store.compare_and_set("owner", expected="", value="me")      # "" if it was written, else the present owner

Keys and values are strings; an absent key reads as "".  The store is a TensorFlow hash table on the ps.  A client
reaches it by a session on that ps alone, with a time-out and independent of the training graph.  So the store works
before a worker has a server, and while a training step hangs.  `records.py` defines the keys.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import LostTaskError, RefusedError, shown
from ps_train.base.errors import cause_of as cause_of
from ps_train.base.untrusted import UntrustedError, is_of, parse_json
from ps_train.cluster.sessions.calls import RepeatingSession

BOARD = "ps_train_board"
"""The table of a job's records."""

_MOST_BYTES = 1 << 28
"""Of an entry: the plan of a large model, or a piece of a trace."""


class KeyValueStore:
    """A client of one ps's store.  Every method raises LostTaskError when that ps does not answer in time.

    Args:
      target: the TensorFlow target of the ps's server, `grpc://host:port`.
      name: of the ps in errors.
      timeout_secs: seconds that one call may take.
      device_filters: of the client's sessions.  A server that knows a whole cluster needs them: it would otherwise wait
        for all its tasks.
      table: name of the table on the ps; `items` returns all that a table holds, so large values have their own.

    Attributes:
      name: of the ps in errors.
      incarnation: of the ps's process; "" until it is known (see `connect.connect_ps`).
      peer: the IP address of the ps; "" until it is known.
    """

    def __init__(
        self,
        target: str,
        name: str,
        timeout_secs: float = 3.0,
        device_filters: Sequence[str] = (),
        table: str = BOARD,
    ) -> None:
        self.name = name
        self.incarnation = self.peer = ""
        graph = tf.Graph()
        with graph.as_default():
            self._build(table)
        milliseconds = int(timeout_secs * 1000)
        self._graph = graph
        self._config = v1.ConfigProto(operation_timeout_in_ms=milliseconds, device_filters=device_filters)
        self._target = target
        self._session = self._connect()
        self._lost_connection: list[v1.Session] = []  # never closed: closing one calls a process that is gone
        self._lock = threading.Lock()

    def get(self, key: str) -> str:
        """Returns the value of a key, "" if it has none."""
        return self._parse_value(self._run(self._found, {self._key: _hash(key)}))

    def set(self, key: str, value: str) -> None:
        """Writes a value and replaces any former one."""
        self._run(self._insert, {self._key: _hash(key), self._value: json.dumps([key, value])})

    def compare_and_set(self, key: str, expected: str, value: str) -> str:
        """Writes `value` if the key has the value `expected`; returns the value before, in one atomic step."""
        entry = json.dumps([key, expected]) if expected else ""
        feeds = {self._key: _hash(key), self._value: json.dumps([key, value]), self._expected: entry}
        return self._parse_value(self._run(self._compared_and_set, feeds))

    def items(self) -> dict[str, str]:
        """Returns all keys with their values."""
        return dict(_entry_of(entry) for entry in self._run(self._all, {}))

    def reconnect_to(self, target: str, name: str) -> None:
        """Reaches the store by a new connection from now on.  Calls under way end or fail at the old address."""
        self._target, self.name = target, name
        self._reconnect(self._session)

    def close(self) -> None:
        """Closes the session to the ps."""
        self._session.close()

    def _build(self, name: str) -> None:
        # The table maps numbers to strings (TensorFlow has none from strings to strings), so an entry holds its key.
        table = tf.raw_ops.MutableHashTableV2(key_dtype=tf.int64, value_dtype=tf.string, shared_name=name)
        self._key = v1.placeholder(tf.int64, [], "key")
        self._value = v1.placeholder(tf.string, [], "value")
        self._expected = v1.placeholder(tf.string, [], "expected")

        def find() -> tf.Tensor:
            return tf.raw_ops.LookupTableFindV2(table_handle=table, keys=self._key, default_value="")

        def insert() -> tf.Operation:
            return tf.raw_ops.LookupTableInsertV2(table_handle=table, keys=self._key, values=self._value)

        def compare_and_set() -> tf.Tensor:
            before = find()
            done = v1.cond(tf.equal(before, self._expected), lambda: tf.group(insert()), tf.no_op)
            with tf.control_dependencies([done]):
                return tf.identity(before)

        self._found = find()
        self._insert = insert()
        self._compared_and_set = tf.CriticalSection(shared_name=f"{name}_lock").execute(compare_and_set)
        self._all = tf.raw_ops.LookupTableExportV2(table_handle=table, Tkeys=tf.int64, Tvalues=tf.string).values

    def _run(self, fetches: Any, feeds: Mapping[Any, Any]) -> Any:
        session = self._session
        try:
            return session.run(fetches, feeds)
        except (tf.errors.OpError, RuntimeError) as error:
            if not isinstance(error, (tf.errors.UnavailableError, tf.errors.DeadlineExceededError)):
                self._reconnect(session)  # a restarted ps never accepts this session again
                raise LostTaskError(f"{self.name} was restarted ({cause_of(error)})") from None
            raise LostTaskError(f"{self.name} does not answer ({cause_of(error)})") from None

    def _reconnect(self, broken: v1.Session) -> None:
        with self._lock:
            if self._session is broken:
                self._lost_connection.append(broken)
                self._session = self._connect()

    def _connect(self) -> v1.Session:
        return RepeatingSession(self._target, graph=self._graph, config=self._config)

    @staticmethod
    def _parse_value(entry: bytes) -> str:
        return _entry_of(entry)[1] if entry else ""


def _entry_of(entry: bytes) -> tuple[str, str]:
    """Returns key and value of an entry; raises RefusedError for anything that `set` does not write."""
    try:
        found = parse_json(entry, _MOST_BYTES)
        if is_of("list[str]", found) and len(found) == 2:
            return found[0], found[1]
        raise UntrustedError(f"it is {shown(found)}")
    except UntrustedError as error:
        raise RefusedError(f"an entry of a ps's store is of another program: {error}; use a port of its own.") from None


def _hash(key: str) -> int:
    """Returns 63 bits of a key's hash, as its key in the table; a few hundred keys do not collide."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big") >> 1
