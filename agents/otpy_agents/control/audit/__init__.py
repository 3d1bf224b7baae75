"""What was done for a project, as lines of JSON beside it (CTL-06, CTL-47, CTL-48, G-14)."""

from __future__ import annotations

from otpy_agents.control.audit.files import AuditFile as AuditFile
from otpy_agents.control.audit.files import FileDamage as FileDamage
from otpy_agents.control.audit.lines import AUDIT as AUDIT
from otpy_agents.control.audit.lines import NOTHING as NOTHING
from otpy_agents.control.audit.lines import PROMPTS as PROMPTS
from otpy_agents.control.audit.lines import WRITTEN as WRITTEN
from otpy_agents.control.audit.lines import AuditTrail as AuditTrail
from otpy_agents.control.audit.lines import Head as Head
