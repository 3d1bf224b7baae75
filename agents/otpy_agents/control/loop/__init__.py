"""The loop of a project: decides the next step, and performs nothing (CTL-08)."""
