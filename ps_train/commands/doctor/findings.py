"""Findings of the doctor: one line each, and the exit code that follows from them.

    report = Report(console)
    report.ok("disk", "12.0 GiB free, 1.2 MiB a checkpoint")
    report.fail("port", "2222 of ps:0 is busy", "stop that process or use another port")
    report.exit_code                                    # 2

Standard library only.
"""

from __future__ import annotations

import dataclasses
import threading

from ps_train.base.console import Console
from ps_train.base.errors import EXIT_CONFIG, EXIT_DONE

OK, WARN, FAIL = "ok", "warn", "FAIL"

_SUBJECT_COLUMNS = 10


@dataclasses.dataclass(frozen=True)
class Finding:
    """One finding.

    Attributes:
      level: OK, WARN or FAIL.  With a FAIL the job cannot start, or cannot succeed.
      subject: one word for the thing that was looked at.
      text: its value and the needed value.
      advice: what to do; "" if nothing is to be done.
    """

    level: str
    subject: str
    text: str
    advice: str = ""

    def line(self) -> str:
        """Returns the finding as one line."""
        text = f"{self.text}: {self.advice}" if self.advice else self.text
        return f"{self.level:<4}  {self.subject:<{_SUBJECT_COLUMNS}}  {' '.join(text.split())}"


class Report:
    """The findings so far; each is shown at once.  Safe to use from several threads.

    Args:
      console: receives the lines.

    Attributes:
      findings: all findings, in their order.
    """

    def __init__(self, console: Console) -> None:
        self._console, self._lock = console, threading.Lock()
        self.findings: list[Finding] = []

    def add(self, *findings: Finding) -> None:
        """Shows findings."""
        for finding in findings:
            with self._lock:
                self.findings.append(finding)
                self._console.line(finding.line())

    def ok(self, subject: str, text: str) -> None:
        """Shows a finding with which all is well."""
        self.add(Finding(OK, subject, text))

    def warn(self, subject: str, text: str, advice: str = "") -> None:
        """Shows a finding with which the job can start."""
        self.add(Finding(WARN, subject, text, advice))

    def fail(self, subject: str, text: str, advice: str = "") -> None:
        """Shows a finding with which the job cannot start or cannot succeed."""
        self.add(Finding(FAIL, subject, text, advice))

    def note(self, text: str) -> None:
        """Shows lines that are not findings."""
        with self._lock:
            self._console.line(text)

    def count(self, level: str) -> int:
        """Returns the number of findings of a level."""
        return sum(finding.level == level for finding in self.findings)

    @property
    def failures(self) -> list[Finding]:
        """The findings that are a FAIL."""
        return [finding for finding in self.findings if finding.level == FAIL]

    @property
    def exit_code(self) -> int:
        """The exit code: 2 if there is a FAIL, else 0."""
        return EXIT_CONFIG if self.count(FAIL) else EXIT_DONE

    def summary(self) -> str:
        """Returns the last line."""
        failures, warnings = self.count(FAIL), self.count(WARN)
        counted = f"{_several(self.count(OK), 'check')} ok, {_several(warnings, 'warning')}"
        if failures:
            return f"doctor: {_several(failures, 'finding')} must be corrected before this job can run ({counted})"
        return f"doctor: nothing found that would stop this job ({counted})"


def _several(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
