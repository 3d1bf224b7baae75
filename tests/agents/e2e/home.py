"""A home for one CLI, with no account and no vendor but the fake one."""

from __future__ import annotations

import contextlib
import json
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Final, final

import psutil

from otpy_agents.run import Access, Adapter, AttemptRequest, find_adapter
from tests.agents.e2e.clis import Clis

__all__ = ["PROVIDER", "Home"]

PROVIDER: Final = "loopback"
"""The provider that Codex is configured with."""
_MODEL: Final = "fake-model"
# No server listens there: a connection that leaves this machine is refused at once.
_NOWHERE: Final = "http://127.0.0.1:1"


@final
class Home:
    """Folders of one CLI: its home, its work directory, and one for the files of each launch.

    Args:
        cli: Name of the adapter.
        url: The address of the fake vendor.
        folder: An empty folder below folders that no other user may write to.
        clis: The installed CLIs.
        also: More CLIs that are set up in this home.
    """

    def __init__(
        self, cli: str, url: str, folder: Path, clis: Clis, also: tuple[str, ...] = ()
    ) -> None:
        self.adapter: Adapter = find_adapter(cli)
        self.work = folder / "work"
        self._url = url
        self._served = (cli, *also)
        self._home = folder / "home"
        self._private = folder / "private"
        self._requests = 0
        self._temporary = folder / "tmp"
        self._clis = clis
        for made in (self.work, self._home, self._private, self._temporary):
            made.mkdir()
        for served in self._served:
            for name, text in _files(served, url).items():
                path = self._home / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")

    def request(
        self,
        prompt: str = "Say hello",
        *,
        session: str | None = None,
        model: str | None = None,
        access: Access = Access.EDIT,
        flags: tuple[str, ...] = (),
    ) -> AttemptRequest:
        """Return a request that this home can serve, with a folder of its own."""
        cli = self.adapter.name
        self._requests += 1
        folder = self._private / str(self._requests)
        folder.mkdir()
        return AttemptRequest(
            prompt=prompt,
            folder=folder,
            session=session,
            # Without a model, gemini asks one model to choose another.
            model=model or ("gemini-2.5-flash" if cli == "gemini" else None),
            provider=PROVIDER if cli == "codex" else None,
            access=access,
            flags=flags,
        )

    def log_codex_in(self) -> Path:
        """Let Codex use its built-in provider with an API key; return its folder."""
        folder = self._home / ".codex"
        lines = (f'model = "{_MODEL}"', f'openai_base_url = "{self._url}/v1"')
        (folder / "config.toml").write_text("\n".join(lines), encoding="utf-8")
        login = json.dumps({"OPENAI_API_KEY": "fake-key"})
        (folder / "auth.json").write_text(login, encoding="utf-8")
        return folder

    def slow_the_shell(self) -> None:
        """Let a shell take ten seconds over its user's settings."""
        (self._home / ".bash_profile").write_text("sleep 10 | cat\n", encoding="utf-8")

    def processes(self) -> list[str]:
        """Return the command lines of all processes that now run in the work directory."""
        found: list[str] = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if Path(process.cwd()).is_relative_to(self.work):
                    found.append(" ".join(process.cmdline()))
        return found

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables for the CLI; none of the tests' own environment is in it."""
        return {
            "HOME": str(self._home),
            "PATH": f"{self._clis.path}:/usr/local/bin:/usr/bin:/bin",
            # Gemini leaves its error reports there.
            "TMPDIR": str(self._temporary),
            "COPILOT_CACHE_HOME": self._clis.copilot_cache,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "HTTP_PROXY": _NOWHERE,
            "HTTPS_PROXY": _NOWHERE,
            "http_proxy": _NOWHERE,
            "https_proxy": _NOWHERE,
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
            **ChainMap(*(_variables(served, self._url) for served in self._served)),
        }


def _variables(cli: str, url: str) -> dict[str, str]:
    match cli:
        case "claude":
            return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "fake-key"}
        case "codex":
            return {"FAKE_KEY": "fake-key"}
        case "gemini":
            return {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "fake-key"}
        case _:
            return {
                "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
                "COPILOT_PROVIDER_TYPE": "openai",
                "COPILOT_PROVIDER_API_KEY": "fake-key",
                "COPILOT_MODEL": _MODEL,
                "COPILOT_OFFLINE": "true",
            }


def _files(cli: str, url: str) -> Mapping[str, str]:
    if cli == "codex":
        lines = [
            f'model = "{_MODEL}"',
            f'model_provider = "{PROVIDER}"',
            f"[model_providers.{PROVIDER}]",
            f'name = "{PROVIDER}"',
            f'base_url = "{url}/v1"',
            'env_key = "FAKE_KEY"',
            'wire_api = "responses"',
        ]
        return {".codex/config.toml": "\n".join(lines)}
    if cli == "gemini":
        settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
        return {".gemini/settings.json": json.dumps(settings)}
    return {}
