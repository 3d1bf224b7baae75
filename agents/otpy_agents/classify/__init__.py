"""Why an attempt ended: judged from its exit, its output and the state of its container."""
