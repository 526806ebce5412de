"""Configuration of augmentation that marks parts of training pairs."""

from dragoman.config import Config
from dragoman.data.augmentation.placeholders import PlaceholderConfig
from dragoman.data.augmentation.terminology import TermConfig


class AugmentationConfig(Config):
    """Parts of training pairs that are marked by reserved symbols, drawn anew in each epoch."""

    terminology: TermConfig | None = None
    """Terms that are written into sources, for the glossary mode `annotated`."""
    placeholders: PlaceholderConfig | None = None
    """Words that are replaced by the same symbol on both sides, so that the model carries placeholders."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """Reserved symbols that the vocabulary needs."""
        parts = (self.terminology, self.placeholders)
        return tuple(symbol for part in parts if part is not None for symbol in part.symbols)
