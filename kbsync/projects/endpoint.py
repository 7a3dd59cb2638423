"""The only door to a language model: an OpenAI-compatible endpoint that a person has configured."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from kbsync.errors import KbsyncError

_CONNECT_S = 10.0
_LARGEST_ANSWER = 4 << 20
# Of what a refusing server says, so much is shown.
_SHOWN = 200


class EndpointFailed(KbsyncError):
    """The model did not answer: what it was to write is done without it, and that is said."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model answers. `url` ends before `/chat/completions`; `key` None: none is sent; `timeout_s` for all."""

    url: str
    model: str
    key: str | None = None
    timeout_s: float = 120.0

    def chat(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return what the model says next. Raises EndpointFailed."""
        import httpx  # half of what the daemon would hold for it, where nobody has configured a model

        body = {"model": self.model, "messages": list(messages), "temperature": 0, "stream": False}
        headers = {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        deadline = time.monotonic() + self.timeout_s
        try:
            # A redirect is not followed: the text and the key would go where nobody said.
            with (
                httpx.Client(
                    timeout=httpx.Timeout(self.timeout_s, connect=_CONNECT_S), follow_redirects=False
                ) as client,
                client.stream(
                    "POST", f"{self.url.rstrip('/')}/chat/completions", json=body, headers=headers
                ) as response,
            ):
                content = b""
                for block in response.iter_bytes():
                    content += block
                    if len(content) > _LARGEST_ANSWER:
                        raise self._failed("its answer is too large")
                    if time.monotonic() > deadline:
                        raise self._late()
                return self._said(response.status_code, content)
        except httpx.TimeoutException as error:
            raise self._late() from error
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise self._failed(str(error) or type(error).__name__) from error

    def _said(self, status: int, content: bytes) -> str:
        if status != 200:
            shown = " ".join(content.decode("utf-8", "replace").split())[:_SHOWN]
            raise self._failed(f"it answered {status}: {shown}".rstrip(": "))
        try:
            text = json.loads(content)["choices"][0]["message"]["content"]
        except (ValueError, LookupError, TypeError) as error:
            raise self._failed("its answer is not of the OpenAI form") from error
        if not isinstance(text, str) or not text.strip():
            raise self._failed("its answer is empty")
        return text.strip()

    def _late(self) -> EndpointFailed:
        return self._failed(f"it did not answer within {self.timeout_s:g} s")

    def _failed(self, why: str) -> EndpointFailed:
        return EndpointFailed(
            f"The model {self.model} at {urlsplit(self.url).netloc or self.url} was of no help: {why}.",
            hint="projects.endpoint, projects.model and projects.timeout_s in config.toml say which it is.",
        )
