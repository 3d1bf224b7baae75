"""What a workflow does next, decided by a pure machine over what its events say."""
