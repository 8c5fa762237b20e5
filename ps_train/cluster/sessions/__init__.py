"""Servers, and sessions whose calls end.

TensorFlow sometimes refuses a call before it has any effect, and sometimes forgets a call that has begun.  Sessions
of this package repeat the first kind and abandon the second, so no caller hangs.

Files:

    abandonable.py  Work in a separate thread that can be abandoned while a call hangs
    calls.py        Sessions whose calls survive TensorFlow's refusals, and can be abandoned while they hang
    exit_guard.py   Calls of TensorFlow at the end of the process
    ps_clocks.py    The clocks of the ps, compared with this process's clock
    server.py       The TensorFlow server of this process, and a session's view of the cluster
"""
