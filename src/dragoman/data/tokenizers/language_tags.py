"""Tags of languages in a vocabulary that is trained here: a tag of the target language precedes each source.

The model reads from the tag what to write (Johnson et al., 2017), also in directions that it was not trained on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dragoman.data.tokenizers.language_tokenizer import LanguageTokenizer
from dragoman.data.tokenizers.prefixes import Language, Prefixes
from dragoman.data.tokenizers.subword_tokenizer import SubwordTokenizer
from dragoman.data.tokenizers.tokenizer_pair import Tokenizer
from dragoman.data.tokenizers.vocabulary import SubwordModel, UnigramModel
from dragoman.errors import ConfigError

TAG_SCORE = -1000.0
"""Log-probability of a tag in a unigram model, which no text can spell."""

LanguagePair = tuple[str | None, str | None]
"""Source and target language of a corpus, where it names them."""


def add_language_tags(tokenizer: Tokenizer, pairs: Iterable[LanguagePair]) -> Tokenizer:
    """Return a tokenizer for the language pairs of several corpora.

    Tags are added to the vocabulary of sources if there are several target languages. Without languages the tokenizer
    stays as it is. Raises ConfigError if only some corpora name their target language.
    """
    different = list(dict.fromkeys(pairs))
    named = [(source, target) for source, target in different if target is not None]
    if not named and all(source is None for source, _ in different):
        return tokenizer
    if len(named) < len(different):
        raise ConfigError(
            "data: some training corpora name a target_language or source_language, and others no target_language. "
            "Name the languages of every corpus, in data.train and data.extra_corpora."
        )
    sources = list(dict.fromkeys(source for source, _ in named if source is not None))
    targets = list(dict.fromkeys(target for _, target in named))
    languages = {code: Language() for code in (*sources, *targets)}
    known = [(source, target) for source, target in named if source is not None]
    prefixes = Prefixes(
        languages=languages,
        directions=tuple(known) if len(known) == len(named) else (),
        source_language=sources[0] if len(sources) == 1 else None,
        target_language=targets[0] if len(targets) == 1 else None,
    )
    if len(targets) == 1:
        return Tokenizer(tokenizer.source, tokenizer.target, tokenizer.config, prefixes)
    first = len(tokenizer.source)
    source = _with_tags(tokenizer.source, targets)
    tags = {code: Language(first + place) for place, code in enumerate(targets)}
    prefixes = replace(prefixes, source=("target_language",), languages=languages | tags)
    return Tokenizer(source, source if tokenizer.shared else tokenizer.target, tokenizer.config, prefixes)


def _with_tags(side: LanguageTokenizer, codes: Sequence[str]) -> SubwordTokenizer:
    assert isinstance(side, SubwordTokenizer), "an imported tokenizer has tags of its own"
    added = tuple(f" <2{code}>" for code in codes)
    model: SubwordModel = replace(side.model, vocab=side.model.vocab + added)
    if isinstance(model, UnigramModel):
        model = replace(model, scores=model.scores + (TAG_SCORE,) * len(added))
    return SubwordTokenizer(model, side.normalizer)
