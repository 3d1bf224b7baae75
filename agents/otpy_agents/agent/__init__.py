"""One mortal: where it stands, how it lives and fails, and what outlives it.

Who supervises it, and beside whom, is the matter of `otpy_agents.tree`.
"""
