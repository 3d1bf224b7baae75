"""The engine: a fresh worker for each step, in a work tree of its own, judged by gates (ENG-01).

What it does is bounded four times over (ENG-48): walls around the worker, a work tree, gates, and a
log in which nothing can be altered. An attempt has its place, its limits and its trail (ENG-02).
"""
