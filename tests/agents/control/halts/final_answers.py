"""Final answers of agents, modelled on real ones: some halt, and some do not."""

from __future__ import annotations

from typing import Final

from otpy_agents.control.halts import HaltReason

BLOCKED, QUESTION, AMBIGUITY = (
    HaltReason.BLOCKED,
    HaltReason.ASKED_QUESTION,
    HaltReason.AMBIGUITY,
)

HALTING: Final = (
    (BLOCKED, "**BLOCKED**: `npm ci` needs the network, and there is none."),
    (BLOCKED, "I looked at everything.\n\nStatus: BLOCKED\n\nThe key is missing."),
    (BLOCKED, "- [ ] Blocked - the database is read-only"),
    (BLOCKED, "Unfortunately, I'm blocked by the sandbox: every write returns EPERM."),
    (BLOCKED, "I've written the tests. I can’t proceed until the schema is merged."),
    (BLOCKED, "I was unable to find it.\nI am not able to complete this task without access."),
    (BLOCKED, "## BLOCKED\n\nThe fixture is missing."),
    (QUESTION, "I found two parsers.\n\nWhich one should I change?"),
    (QUESTION, "There is a lock file already.\n\nShould I delete it?"),
    (QUESTION, "The migration drops a column.\n\nWould you like me to proceed?"),
    (QUESTION, "Here are three options:\n\n1. A\n2. B\n3. C\n\nWhich do you prefer?"),
    (
        QUESTION,
        "**The next step is delivery.** The rest is ready. What would you like me to focus on?",
    ),
    (QUESTION, "Both are drafted.\n\nWant to lock the model first, or take the merge next?"),
    (QUESTION, "The plan is above. Want me to proceed with the new files?"),
    (QUESTION, "Faithful costs a backfill; simple drops stop words. Your call?"),
    (QUESTION, "Could you please clarify what “fast” means here?"),
    (QUESTION, "I need your approval before I push to the main branch.\nThe rest is ready."),
    (QUESTION, "QUESTION: is Python 3.8 still supported?\n\nI stopped here."),
    (QUESTION, "Both are possible.\n\nPlease let me know which one I should implement."),
    (QUESTION, "Both work.\n\nLet me know how you'd like to proceed."),
    (AMBIGUITY, "I stopped. The requirements are contradictory: 3 lines, and 4 lines."),
    (AMBIGUITY, "AMBIGUITY: `id` may be the row or the user"),
    (AMBIGUITY, "I'm not sure which config file you meant, so I changed none."),
    (AMBIGUITY, "It's not clear whether the old API should be kept."),
    (AMBIGUITY, "The task can be interpreted in two ways; I left both as they are."),
)

INNOCENT: Final = (
    "",
    "Done.",
    "ok",
    "I've added `hello.txt` with the requested content. All 12 tests pass.",
    # A diff full of question marks.
    "```diff\n-    return x ? y : z;\n+    return should_i(x) ? y : z?\n```",
    "```ts\nconst a = b?.c ?? d;\n// Should I keep this?\n```\n\nDone.",
    "@@ -1,3 +1,3 @@\n QUESTION: str = 'should I?'\n-BLOCKED: old\n+BLOCKED: new\n context?",
    "```\nBLOCKED: this is the output of a tool\n",
    "~~~\nShall I proceed?\n~~~",
    "    $ ./run\n    Should I continue?\n\nThe prompt above is gone now.",
    "> Should I use tabs?\n\nYou asked this; it uses spaces now.",
    "| Question | Answer |\n|---|---|\n| Should I? | yes |",
    # Words with another meaning.
    "The event loop is no longer blocked by the DNS lookup.",
    "Fixed: the thread blocked on a lock that nobody released.",
    "Added a `blocked` state to the task and a test for it.",
    "Blocked users can't log in any more.",
    "Blocked requests are now counted in the metrics.",
    "The queue unblocked after I raised the limit. Non-blocking reads were not touched.",
    "It might be an option to cache this; I suggest a follow-up. Maybe an alternative could help.",
    "Resolved the ambiguous import of `Path` and the unclear variable name.",
    "Renamed `ambiguity_check` to `check`. The error message was unclear; it names the file now.",
    "It is unclear why the upstream test was skipped; it passes here.",
    "Replaced the text 'Should I continue?' in the dialog.",
    'The installer asked "Would you like to proceed?", and I answered no in the script.',
    "The function `can_proceed()` returns False if the user cannot proceed.",
    "If the user is unsure which option to use, the help text explains it.",
    # Questions that the answer itself answers, and questions in the middle.
    "Why did it fail? The fixture was closed twice. Fixed by closing it once.",
    "What changed?\n- the parser\n- its tests\n\nAll green.",
    "How should I have noticed? The log had it. I added an alert.\n\nAll tests pass.",
    # Polite offers after finished work.
    "All done. Let me know if you'd like me to change anything.",
    "Everything passes. Want me to wire a smoke test for the round trip?",
    "Everything passes. Would you like me to also add a benchmark?",
    "Finished.\n\nAnything else?",
    "The refactoring is complete. Do you want me to help with the docs as well?",
    # Other languages.
    "Die Datei wurde angelegt. Alle Tests laufen durch.",
    "Fertig. Der Aufruf ist nicht mehr blockiert.",
)
