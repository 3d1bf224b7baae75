"""A process of the operating system with all that it starts: its output, and its certain end.

Nothing here knows what the process is for.
"""
