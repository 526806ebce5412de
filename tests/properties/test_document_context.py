from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.document_context import (
    ContextConfig,
    ContextReader,
    drop_oldest_sentence,
    has_context,
    join_context,
    last_sentences,
    replace_last_sentence,
    split_context,
)
from dragoman.data.readers.parallel import Example
from tests.property_settings import examples

SENTENCES = st.text(st.sampled_from("ab,' \\é\ue020\ue02f"), max_size=7)
CORPORA = st.lists(st.tuples(SENTENCES, SENTENCES), max_size=11)
CONFIGS = st.builds(
    ContextConfig, source_sentences=st.integers(1, 5), target=st.booleans(), dropout=st.sampled_from([0.0, 0.4])
)


@examples(200)
@given(CORPORA, CONFIGS)
def test_joined_pairs_have_the_pairs_before_in_their_order(corpus, config):
    reader = ContextReader(config, is_training=True)
    joined = [reader.join(Example(*pair, line)) for line, pair in enumerate(corpus, 1)]
    plain = [
        tuple(" ".join(text.replace("\ue020", "\ufffd").replace("\ue02f", "\ufffd").split()) for text in pair)
        for pair in corpus
    ]
    for row, (one, pair) in enumerate(zip(joined, plain, strict=True)):
        if not (corpus[row][0].strip() and corpus[row][1].strip()):
            assert (one.source, one.target) == corpus[row]
            continue
        context, last = split_context(one.source)
        assert " ".join(last.split()) == pair[0]
        assert len(context) <= config.source_sentences
        before = [source for source, target in plain[:row] if source and (target or not config.target)]
        assert context == before[len(before) - len(context) :]
        if config.target:
            assert len(split_context(one.target)[0]) == len(context)
        else:
            assert not has_context(one.target)


@examples(200)
@given(st.lists(st.text("ab .", min_size=1).map(str.strip).filter(bool), max_size=5), st.text("ab", min_size=1))
def test_dropping_sentences_one_by_one_leaves_the_last_one(context, last):
    symbols = ContextConfig(source_sentences=5).symbols
    pair = (join_context(context, last, symbols), last)
    for count in range(len(context), 0, -1):
        assert split_context(pair[0]) == (context[-count:], last)
        assert replace_last_sentence(pair[0], "new").endswith("new")
        pair = drop_oldest_sentence(pair)
    assert pair == (last, last) == last_sentences(pair)
