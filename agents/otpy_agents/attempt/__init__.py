"""One attempt in terms that hold for every CLI: what it says, what it spends, why it fails.

Pure values: adapters make them, and runs decide by them.
"""
