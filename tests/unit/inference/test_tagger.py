"""Tagger: batches, segments and streams."""

import pytest
import torch
from torch import Tensor, nn

from dragoman.data.datasets.labeled import Labels
from dragoman.data.datasets.tagged import encode_words
from dragoman.data.tokenizers import CharacterConfig, LanguageTokenizer, Tokenizer
from dragoman.inference import InputWarning, Tagger
from dragoman.models.config import EncoderOnlyConfig
from dragoman.models.task_heads import ModelWithHead, TokenHead
from tests.random_models import random_encoder

SENTENCES = [["two", "dogs", "play", "."], [], ["a"], ["μία", "猫", "\u00a0", "cat"], ["dogs"] * 7]
LABELS = Labels(("A", "B", "C"))


@pytest.fixture(scope="module")
def side() -> LanguageTokenizer:
    return Tokenizer.train(lambda: [("two dogs play.", "a cat sits by the sea")], CharacterConfig()).source


def network(side: LanguageTokenizer) -> ModelWithHead:
    config = EncoderOnlyConfig(d_model=12, num_heads=2, d_ff=19, num_layers=1)
    head = TokenHead(d_model=12, num_labels=3, dropout=0.0)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        nn.init.normal_(head.output.weight)
    return ModelWithHead(random_encoder(config, vocabulary=len(side) + 1), head).eval()


class FirstLetter(nn.Module):
    """Model whose most probable label is the id of the token."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.labels = labels

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        return 9.0 * nn.functional.one_hot(tokens, self.labels).float()


@pytest.mark.parametrize("batch_tokens", [1, 37, 4096])
def test_batch_equals_alone_in_order(side, batch_tokens):
    model = network(side)
    together = Tagger(model, side, LABELS, batch_tokens=batch_tokens).tag(SENTENCES)
    alone = [Tagger(model, side, LABELS).tag([words])[0] for words in SENTENCES]
    assert [[(tag.word, tag.label) for tag in tags] for tags in together] == [
        [(tag.word, tag.label) for tag in tags] for tags in alone
    ]
    assert [[tag.word for tag in tags] for tags in together] == SENTENCES
    flat, expected = ([tag.probability for tags in some for tag in tags] for some in (together, alone))
    assert flat == pytest.approx(expected, abs=1e-6)


def test_label_comes_from_the_first_token_of_a_word(side):
    model = network(side)
    words = SENTENCES[0]
    aligned = encode_words(side, words)
    ids = torch.tensor([[2, *aligned.ids, 3]])
    probabilities = model(ids, torch.tensor([ids.shape[1]])).detach().double().softmax(-1)[0]
    for tag, first in zip(Tagger(model, side, LABELS).tag([words])[0], aligned.first_tokens, strict=True):
        best = int(probabilities[first + 1].argmax())
        assert tag.label == LABELS.names[best]
        assert tag.probability == pytest.approx(float(probabilities[first + 1, best]), abs=1e-6)


@pytest.mark.parametrize("longest", [3, 7, 8, 11, 17])
def test_long_sentence_is_tagged_in_segments(side, longest):
    labels = Labels(tuple(f"{index:04}" for index in range(len(side))))
    tagger = Tagger(FirstLetter(len(side)), side, labels, max_length=longest)
    words = ["two", "dogs", "play", "by", "the", "sea", "sitsandplays", "a"]
    with pytest.warns(
        InputWarning, match=r"sentences\[1\]: too long for the model; its words were tagged in \d segments"
    ):
        [_, tags] = tagger.tag([["a"], words])
    assert [tag.word for tag in tags] == words
    expected = [side.encode(word)[0] for word in words]
    assert [int(tag.label) for tag in tags] == expected


def test_long_word_is_truncated_with_a_warning(side):
    tagger = Tagger(
        FirstLetter(len(side)), side, Labels(tuple(f"{index:04}" for index in range(len(side)))), max_length=7
    )
    with pytest.warns(InputWarning, match=r"sentences\[1\]: a word is too long for the model; its end is ignored"):
        [[short], [tag]] = tagger.tag([["a"], ["sitsandplays"]])
    assert (short.truncated, tag.truncated) == (False, True)
    assert int(tag.label) == side.encode("sitsandplays")[0]


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_stream_equals_list(side, chunk):
    tagger = Tagger(network(side), side, LABELS)
    streamed = [[tag.label for tag in tags] for tags in tagger.tag_stream(iter(SENTENCES), chunk=chunk)]
    assert streamed == [[tag.label for tag in tags] for tags in tagger.tag(SENTENCES)]


def test_single_string_is_refused(side):
    with pytest.raises(TypeError, match="is one string, and a list is expected"):
        Tagger(network(side), side, LABELS).tag(["two dogs"])


def test_unknown_characters_are_reported(side):
    with pytest.warns(
        InputWarning, match=r"^sentences\[3\]: characters that are not in the vocabulary: μ ί α 猫; replace"
    ):
        list(Tagger(network(side), side, LABELS).tag_stream(SENTENCES))
