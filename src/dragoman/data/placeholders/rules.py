"""Settings of the protection of placeholders."""

from dataclasses import dataclass
from typing import Literal, final, get_args

from dragoman.errors import ConfigError, shorten

Accelerator = Literal["_", "&"]
"""Mark before the letter that opens a menu item: `_` of GTK, `&` of Qt and Windows."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceholderRules:
    """Settings of the protection of placeholders, for all texts or each."""

    numbering: bool = False
    """Whether the format allows numbers in placeholders that get their values by their order, as `%2$s` and `{1}`.

    They are then numbered where the translation has them in another order. Otherwise they keep their order.
    """
    accelerator: Accelerator | None = None
    """Mark of keyboard accelerators, which is removed before the translation and put back before a letter."""
    plural_language: str | None = None
    """Code of the language of the translation; ICU messages then have all of its plural categories."""

    def __post_init__(self) -> None:
        """Raise ConfigError on an unknown accelerator."""
        if self.accelerator is not None and self.accelerator not in get_args(Accelerator):
            raise ConfigError(f"accelerator = {shorten(self.accelerator)} is unknown. Choose _ or &.")


AnyPlaceholders = bool | PlaceholderRules
"""Whether placeholders are protected, or with which rules."""
