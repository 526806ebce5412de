"""Errors of requests, which each protocol shows in its own shape."""

from dataclasses import dataclass

from dragoman.errors import ConfigError, DataError, DragomanError, MissingExtraError


@dataclass
class RequestError(Exception):
    """Request that is not answered, with its HTTP status and a message for the client."""

    status: int
    message: str
    parameter: str | None = None
    """Parameter of the request that the message is about."""
    retry_after: int | None = None
    """Seconds after which the client may try again."""

    def __str__(self) -> str:
        return self.message

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the response."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


class QuotaExceededError(RequestError):
    """Request above the quota of its client; protocols may have a status of their own for it."""

    def __init__(self, message: str) -> None:
        super().__init__(429, message)


def invalid(message: str, parameter: str | None = None) -> RequestError:
    """Return the error of a request with an invalid parameter."""
    return RequestError(400, message, parameter)


def overloaded(message: str = "The server is busy. Try again later.", *, retry_after: int = 1) -> RequestError:
    """Return the error of a request above a limit of the server."""
    return RequestError(503, message, retry_after=retry_after)


def as_request_error(error: Exception) -> RequestError:
    """Return what a client may know of an error: all of one that it can fix, and nothing of others."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, TimeoutError):
        return overloaded("The request took too long. Send less text, or try again later.")
    if isinstance(error, ConfigError | DataError) and not isinstance(error, MissingExtraError):
        return invalid(str(error))
    if isinstance(error, DragomanError):
        return RequestError(501, "The server is not set up for this request.")
    return RequestError(500, "Internal error.")
