"""A work list at work in your program.

| you want | you use |
|---|---|
| to work a list off, with all that `otpy-agents up` does | `open_app`, which gives an `App` |
| to hear what happens | its `listen`, called with each `Event` |
| to know how it came out | `App.conclusions`, a `Conclusion` for each assignment |
"""

from __future__ import annotations

from otpy_agents.app.app import App as App
from otpy_agents.app.app import open_app as open_app
from otpy_agents.app.chronicle import Event as Event
from otpy_agents.app.conclusion import Conclusion as Conclusion

__all__ = ["App", "Conclusion", "Event", "open_app"]
