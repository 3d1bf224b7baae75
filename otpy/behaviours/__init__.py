"""OTP's behaviours on the runtime: servers, tasks, registries, partitions.

The generic part is here, the particular part is a subclass, a function or a spec of the user's. The
runtime does not know of any of them.
"""
