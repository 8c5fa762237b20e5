"""The doctor: checks of a host and of the way to the others, before a job is started; see `command.py`."""

from ps_train.commands.doctor.command import main

__all__ = ["main"]
