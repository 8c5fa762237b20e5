"""Numbers that a program and its test share."""

LAST_STEP = 60
CHIEFS_BATCHES = 5
OTHERS_BATCHES = 40
