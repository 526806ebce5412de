"""Log of the server: JSON objects on standard error, one per line, without texts of clients."""

import json
import logging
import traceback
import warnings
from typing import Any, final

from dragoman.errors import TextWarning

_logger = logging.getLogger(__name__)


def configure_logging() -> None:
    """Write the log, warnings included, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    warnings.showwarning = _log_warning


@final
class JsonFormatter(logging.Formatter):
    """Formats records of the log as JSON objects, one per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = describe_error(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False)


def describe_error(error: BaseException | None) -> str:
    """Return the traceback and the class of an error, without its message, which may have texts of clients."""
    if error is None:
        return ""
    return f"{''.join(traceback.format_tb(error.__traceback__))}{type(error).__name__}"


def _log_warning(message: Warning | str, category: type[Warning], *_location: object, **_line: object) -> None:
    """Log a warning, in place of `warnings.showwarning`; one about a text without its words."""
    fields: dict[str, Any] = {"category": category.__name__}
    if isinstance(message, TextWarning):
        text, fields["texts"] = message.problem, len(message.parts) or 1
    else:
        text = str(message)
    _logger.warning("%s", text, extra={"fields": fields})
