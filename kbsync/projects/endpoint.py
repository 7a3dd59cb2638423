"""The only door to a language model: an OpenAI-compatible endpoint that a person has configured."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from kbsync.errors import KbsyncError

_CONNECT_S = 10.0
_HERE = ("localhost", "127.0.0.1", "::1")
# What `_chat` finds out itself is told better than that nothing came.
_GRACE_S = 0.5
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
        said: list[str | EndpointFailed] = []

        def ask() -> None:
            try:
                said.append(self._chat(client, messages))
            except EndpointFailed as error:
                said.append(error)

        # A redirect is not followed: the text and the key would go where nobody said.
        timeout = httpx.Timeout(self.timeout_s, connect=_CONNECT_S)
        # What runs on this machine is reached directly, whatever proxy the environment names.
        is_here = urlsplit(self.url).hostname in _HERE
        with httpx.Client(timeout=timeout, follow_redirects=False, trust_env=not is_here) as client:
            # A thread of its own: httpx limits each read, and a server that drips its headers has any number of these.
            asking = threading.Thread(target=ask, name="model", daemon=True)
            asking.start()
            asking.join(self.timeout_s + _GRACE_S)
        if not said:
            raise self._late()
        if isinstance(said[0], EndpointFailed):
            raise said[0]
        return said[0]

    def _chat(self, client: httpx.Client, messages: Sequence[Mapping[str, str]]) -> str:
        body = {"model": self.model, "messages": list(messages), "temperature": 0, "stream": False}
        # Not packed: a small answer could be unpacked to any size.
        headers = {"Accept-Encoding": "identity"}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        deadline = time.monotonic() + self.timeout_s
        try:
            with client.stream(
                "POST", f"{self.url.rstrip('/')}/chat/completions", json=body, headers=headers
            ) as response:
                content = bytearray()
                for block in response.iter_raw():
                    content += block
                    if len(content) > _LARGEST_ANSWER:
                        raise self._failed("its answer is too large")
                    if time.monotonic() > deadline:
                        raise self._late()
                return self._said(response.status_code, bytes(content))
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
        place = urlsplit(self.url).netloc.rpartition("@")[2]  # what stands before it may be a password
        return EndpointFailed(
            f"The model {self.model} at {place} was of no help: {why}.",
            hint="projects.endpoint, projects.model and projects.timeout_s in config.toml say which it is.",
        )
