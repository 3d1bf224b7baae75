"""The APIs of the vendors behind the agent CLIs, on loopback and without a model.

One server speaks Anthropic Messages, OpenAI Responses, OpenAI chat completions and Gemini, streamed
and not, and answers after a script: answers, tool calls, every error the vendors document, and
every way in which a connection breaks. The words are those of the vendors' documentation.

Example:
    ```python
    async with FakeApi(Refuse(Error.OVERLOADED), Answer("done")) as api:
        ...  # point a CLI at api.url
        assert len(api.exchanges) == 2
    ```
"""

from __future__ import annotations

from tests.agents.fake_api.replies import CACHED_TOKENS as CACHED_TOKENS
from tests.agents.fake_api.replies import INPUT_TOKENS as INPUT_TOKENS
from tests.agents.fake_api.replies import OUTPUT_TOKENS as OUTPUT_TOKENS
from tests.agents.fake_api.replies import Answer as Answer
from tests.agents.fake_api.replies import Cut as Cut
from tests.agents.fake_api.replies import Error as Error
from tests.agents.fake_api.replies import Garbage as Garbage
from tests.agents.fake_api.replies import Hang as Hang
from tests.agents.fake_api.replies import Refuse as Refuse
from tests.agents.fake_api.replies import Reply as Reply
from tests.agents.fake_api.replies import UseTool as UseTool
from tests.agents.fake_api.server import Exchange as Exchange
from tests.agents.fake_api.server import FakeApi as FakeApi
