"""Sending from a thread: nobody waits for the other side, an error is tried again after a longer pause.

    sender = Sender("uploads", send, failed, pause_secs=1.0, retry_secs=(2.0, 10.0))
    sender.start()                        # calls send(False) every second
    sender.flush(60)                      # send(True) as soon as possible; True once it has succeeded

It does not know what is sent, nor what is said of an error.  Work that fails is noted as work beside training.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ps_train.base import side_work


class Sender:
    """The thread that sends.

    Args:
      name: of the thread, and of the work in `side_work`.
      send: sends what is new; called with True if somebody waits for it.  It may block and raise.
      failed: hears each error; returns whether it is to be tried again.
      pause_secs: seconds between two sendings.
      retry_secs: seconds before the second attempt, and the longest time between two; each pause is twice the last.
    """

    def __init__(
        self,
        name: str,
        send: Callable[[bool], None],
        failed: Callable[[Exception], bool],
        pause_secs: float,
        retry_secs: tuple[float, float],
    ) -> None:
        self._name, self._send, self._failed = name, send, failed
        self._pause_secs, self._retry_secs = pause_secs, retry_secs
        self._changed = threading.Condition()
        self._asked = self._done = 0
        self._is_last = False
        self.is_over = False
        """True once nothing more is sent."""

    def start(self) -> None:
        """Starts the thread."""
        threading.Thread(target=self._run, daemon=True, name=self._name).start()

    def flush(self, within_secs: float, is_last: bool = False) -> bool:
        """Waits until all that is there now is sent; returns False if that was not possible in this time.

        Args:
          within_secs: seconds to wait; 0 only asks for it.
          is_last: nothing is sent after the next attempt, even if it fails.
        """
        with self._changed:
            self._asked, self._is_last = self._asked + 1, is_last
            asked = self._asked
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._done >= asked or self.is_over, within_secs)
            return self._done >= asked

    def close(self) -> None:
        """Begins no further sending."""
        with self._changed:
            self.is_over = True
            self._changed.notify_all()

    def _run(self) -> None:
        asked, pause, (retry, longest) = 0, self._pause_secs, self._retry_secs
        while True:
            with self._changed:
                if not self.is_over and self._asked == asked:
                    self._changed.wait(pause)
                if self.is_over:
                    return
                asked, is_last = self._asked, self._is_last
            has_sent, goes_on = True, True
            try:
                self._send(asked > self._done)
                side_work.works(self._name, is_told=True)
                pause, retry = self._pause_secs, self._retry_secs[0]
            except Exception as error:  # the packages have errors of their own
                has_sent, goes_on = False, self._failed(error)
                pause, retry = retry, min(2 * retry, longest)
            with self._changed:
                self._done = asked if has_sent else self._done
                self.is_over = self.is_over or is_last or not goes_on
                self._changed.notify_all()
