"""Native SessionRunHooks, one concern a file.  They run every few steps, at the end of a burst, not at every step."""
