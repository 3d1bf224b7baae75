"""One attempt in terms that fit every CLI: its events, its usage, its failures.

Pure values: adapters make them, and runs decide by them.
"""
