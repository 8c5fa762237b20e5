"""Servers, and sessions whose calls end.

The idea: TensorFlow sometimes refuses a call before it has any effect, and sometimes forgets a call that has begun.
Sessions of this package repeat the first kind and abandon the second, so no caller hangs.

Data structures: a `Session` is TensorFlow's with calls that are repeated and limited.  A `SessionGroup` is the
sessions that one thread owns and that are abandoned together; an abandoned call raises, however it ends.  `PsClocks`
estimates the offset of each ps's clock.

It does not know what a call computes.  The decisions are 0019 (refused calls) and 0020 (calls that hang).
"""
