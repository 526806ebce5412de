"""Configuration of augmentation that marks parts of training pairs."""

from dragoman.config import Config
from dragoman.data.augmentation.terminology import TermConfig


class AugmentationConfig(Config):
    """Parts of training pairs that are marked by reserved symbols, drawn anew in each epoch."""

    terminology: TermConfig | None = None
    """Terms that are written into sources, for the glossary mode `annotated`."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """Reserved symbols that the vocabulary needs."""
        return () if self.terminology is None else self.terminology.symbols
