"""Counters of the whole run on ps 0: examples, steps, what was dropped or skipped, and waiting."""
