"""The next step of a workflow, decided by a pure machine from its events."""
