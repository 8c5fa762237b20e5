"""Values that follow measurements: the batch size, the limits of staleness, the codec of a push.

The idea: an `AdaptedValue` is fixed or is chosen again by one `Adaptation`, whose policy is plain Python on numbers.
Decision 0052 has the rules.
"""
