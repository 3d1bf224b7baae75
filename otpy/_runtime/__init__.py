"""The imperative shell: it performs everything and decides nothing.

Supervisors have no task of their own. Callbacks (a child's end, its readiness, a timer, a request)
enqueue events in the tree; each is handed to the machine of the supervisor it is for, and the
effects that come back are performed here.
"""
