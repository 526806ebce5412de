"""Connection to a Hugging Face Hub: its address, requests, and its refusals in words.

Address, access token, proxies and offline mode are those of `huggingface_hub`:
https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables. Messages contain neither the token
nor texts of the server.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, final
from urllib.parse import quote, urlparse

from dragoman.errors import ConfigError, DragomanError, MissingExtraError, shorten, shorten_text

DEFAULT_ENDPOINT: Final = "https://huggingface.co"
TIMEOUT: Final = 20.0
"""Seconds without a byte after which a request fails."""
INVALID_TOKEN: Final = "Invalid credentials in Authorization header"  # noqa: S105  # a message of the Hub
MAX_REASON: Final = 100
"""Characters of the reason in a message."""
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
LOG_IN: Final = "log in with: hf auth login"


class HubError(DragomanError):
    """Hub that cannot be reached or refuses a request."""


class BusyHubError(HubError):
    """Refusal or interruption that may end when the request is repeated."""


@final
@dataclass(frozen=True)
class Hub:
    """A Hub at an address."""

    endpoint: str
    """Address of requests, which may contain a password."""

    @property
    def shown(self) -> str:
        """Address without a password."""
        scheme, _, rest = self.endpoint.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"

    @staticmethod
    def connect() -> "Hub":
        """Return the Hub that the environment names.

        Raises ConfigError if its address is invalid, and HubError if the environment forbids requests or has an
        invalid access token, which the library would quote in its errors.
        """
        library = require_library()
        if library.constants.is_offline_mode():
            raise HubError(
                "HF_HUB_OFFLINE is set, so that no Hub is asked. Unset it, or import a folder that you have."
            )
        if (token := library.get_token()) and not _TOKEN.fullmatch(token):
            raise HubError(f"The access token has characters that no token has. Renew HF_TOKEN, or {LOG_IN}")
        endpoint = (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")
        try:
            address = urlparse(endpoint)
            is_valid = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
        except ValueError:
            is_valid = False
        if not is_valid or not endpoint.isprintable() or " " in endpoint:
            raise ConfigError(
                f"HF_ENDPOINT = {shorten(Hub(endpoint).shown)} is no address. Give one such as {DEFAULT_ENDPOINT}."
            )
        return Hub(endpoint)

    def page(self, name: str) -> str:
        """Return the address of the page of a repository."""
        return f"{self.shown}/{name}"

    @contextmanager
    def open(self, path: str, *, name: str, revision: str | None = None, start: int = 0) -> Iterator[Any]:
        """Open the response to a request for a path, from a byte on, whose content is not compressed.

        Raises HubError if the Hub cannot be reached or refuses, and BusyHubError if it may answer later.
        """
        library = require_library()
        headers = library.utils.build_hf_headers(library_name="dragoman", library_version=version("dragoman"))
        headers["Accept-Encoding"] = "identity"
        if start:
            headers["Range"] = f"bytes={start}-"
        session = library.utils.get_session()  # follows redirects, and does not send the token to other hosts
        address = self.endpoint + path
        with (
            self.explained(name, revision),
            session.stream("GET", address, headers=headers, timeout=TIMEOUT) as response,
        ):
            if response.status_code >= 300:
                raise self._refusal(response, name, revision)
            yield response

    @contextmanager
    def explained(self, name: str, revision: str | None = None) -> Iterator[None]:
        """Raise errors of the library about a repository as HubError."""
        library = require_library()
        try:
            yield
        except library.errors.HfHubHTTPError as error:
            raise self._refusal(error.response, name, revision) from None
        except library.errors.HFValidationError:
            raise HubError(f"{shorten(name)} is no name of a model on the Hub. Give ORGANIZATION/MODEL.") from None
        except library.errors.HTTPError as error:
            reason = shorten_text(str(error).split("\n", 1)[0] or type(error).__name__, MAX_REASON)
            raise BusyHubError(
                f"{self.shown}: cannot be reached ({reason}). Check the network and HF_ENDPOINT, and run again."
            ) from None

    def _refusal(self, response: Any, name: str, revision: str | None) -> HubError:
        """Return the error for a response, from its status and the headers of the Hub."""
        status, code = response.status_code, response.headers.get("X-Error-Code")
        if code == "GatedRepo":
            return HubError(f"{name}: is gated. Ask for access at {self.page(name)}, and {LOG_IN}")
        if code == "RevisionNotFound":
            given = f"revision {shorten(revision)}" if revision else "revision of this name"
            return HubError(f"{name}: has no {given}. Give a branch, a tag or a commit with --revision.")
        if code == "EntryNotFound":
            return HubError(f"{name}: a file that it lists does not exist. Run again.")
        if status == 401 and response.headers.get("X-Error-Message") == INVALID_TOKEN:
            return HubError(f"{self.shown}: refuses the access token. Renew HF_TOKEN, or {LOG_IN}")
        if status in (401, 404):
            return HubError(f"{name}: does not exist at {self.shown}, or is private. Check the name, or {LOG_IN}")
        if status == 403:
            return HubError(f"{name}: access is refused. Use an access token with this right, or {LOG_IN}")
        if status == 409:
            return HubError(f"{name}: was changed at the same time. Run again.")
        kind = BusyHubError if status in (408, 429) or status >= 500 else HubError
        busy = "too many requests" if status == 429 else f"error {status}"
        return kind(f"{self.shown}: refuses the request about {name} ({busy}). Try again later.")


def require_library() -> Any:
    """Return the package `huggingface_hub`. Raises MissingExtraError without it."""
    try:
        import huggingface_hub.constants
        import huggingface_hub.errors
        import huggingface_hub.utils
    except ImportError as error:
        raise MissingExtraError(feature="The Hugging Face Hub", extra="hub") from error
    return huggingface_hub


def model_path(name: str, revision: str | None) -> str:
    """Return the path of the description of a model, with the sizes of its files."""
    at = f"/revision/{quote(revision, safe='')}" if revision else ""
    return f"/api/models/{name}{at}?blobs=true"


def file_path(name: str, commit: str, file: str) -> str:
    """Return the path of a file of a model."""
    return f"/{name}/resolve/{commit}/{quote(file)}"
