"""The loop of a project: decides what is done next, and performs nothing (CTL-08)."""
