"""The functional core: it decides everything and performs nothing.

Nothing in this folder awaits, reads a clock, draws a random number, starts a thread or writes a
log; import-linter checks it. Time comes in as an argument (seconds, monotonic), randomness as a
callable, and every deed goes out as an effect for `otpy._runtime` to perform.
"""
