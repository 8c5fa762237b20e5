"""Pure transforms of gradients, one a file.

They run on the worker before the push, in the same way under every update mode.  They do not depend on ps, plans or
updates.
"""
