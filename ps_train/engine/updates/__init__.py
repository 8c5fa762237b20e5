"""Update modes: the rules by which pushed gradients become new values.

The idea: all modes take the same push and differ in one question: when does a gradient become a new value?  The
answer is given on the ps, under its lock.  A worker that must wait ends its step at a gate there, which costs no
message.

The rooms: `modes` has the interface and the modes, `gradients` what happens to a gradient on its way, `following`
values that measurements choose, `shards` the progress of data that many workers share, and `counters` what is counted
for the whole run.

A new mode is one file, a new rule one class.  No module here knows how values travel.
"""
