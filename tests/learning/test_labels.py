"""Small networks with heads learn, from texts to labels, words to labels and questions to answers, within a minute."""

import random
from collections.abc import Iterator

import pytest
import torch

from dragoman.data.batching.in_memory import example_stream
from dragoman.data.datasets.labeled import LabelledIds, Labels
from dragoman.data.datasets.qa import QuestionIds, WindowSettings
from dragoman.data.datasets.tagged import TaggedIds
from dragoman.data.readers import Labelled, Located, Question, Tagged
from dragoman.data.tokenizers import Side, Tokenizer, Words
from dragoman.evaluation import classification_scores, span_scores
from dragoman.inference import Answerer, Classifier, Tagger
from dragoman.models.config import CausalConfig, DropoutConfig, EncoderConfig
from dragoman.models.factory import build_causal, build_encoder
from dragoman.models.model_with_head import CausalTrunk, Headed
from dragoman.models.task_heads import SequenceHead, SpanHead, TokenHead
from dragoman.training.classification_losses import sequence_labels, spans, token_labels
from dragoman.training.step import compute_gradients

WORDS = [f"w{number}" for number in range(23)]
SIZES = {"size": 32, "heads": 4, "feed_forward": 64, "layers": 2, "dropout": DropoutConfig(embedding=0.0, residual=0.0)}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """More would wait for each other in a network so small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def side() -> Side:
    return Tokenizer.train(lambda: [(" ".join(WORDS), " ".join(WORDS))], Words()).source


def texts(count: int, *, seed: int) -> list[list[str]]:
    """Words in any order; so many that the learners never see the ones they are judged by."""
    generator = random.Random(seed)
    return [generator.choices(WORDS, k=generator.randint(3, 11)) for _ in range(count)]


def learn(model: Headed, ids, objective, *, updates: int) -> None:
    """Plain Adam over shuffled batches."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.003)
    stream = example_stream(ids, budget=500, seed=1)
    model.train()
    for update in range(updates):
        compute_gradients(model, [next(stream)], objective, seeds=(1, update), precision="float32")
        optimiser.step()
        optimiser.zero_grad()
    model.eval()


def build(kind: str, side: Side, head) -> Headed:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        if kind == "causal":
            return Headed(CausalTrunk(build_causal(CausalConfig(**SIZES), vocabulary=len(side))), head())
        return Headed(build_encoder(EncoderConfig(**SIZES, segments=2), vocabulary=len(side)), head())


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "pooling"), [("encoder", "first"), ("encoder", "mean"), ("causal", "last")])
def test_a_text_is_classified_by_a_word_anywhere_in_it(side, kind, pooling):
    """The label is whether w0, w1 or w2 occurs, of which each text has one."""
    labels = Labels(("w0", "w1", "w2"))

    def examples(count: int, seed: int) -> list[Labelled]:
        generator = random.Random(seed)
        found = []
        for words in texts(count, seed=seed):
            rest = [word for word in words if word not in labels.names]
            label = generator.choice(labels.names)
            rest.insert(generator.randint(0, len(rest)), label)
            found.append(Labelled(" ".join(rest), label, 1))
        return found

    model = build(kind, side, lambda: SequenceHead(size=32, labels=3, pooling=pooling, dense=True, dropout=0.0))
    learn(
        model,
        LabelledIds.build(examples(1000, 1), side.encode_batch, labels, longest=20),
        sequence_labels(0.0),
        updates=200,
    )
    unseen = examples(200, 2)
    found = Classifier(model, side, labels).classify([one.text for one in unseen])
    accuracy, _ = classification_scores([one.label for one in found], [one.label for one in unseen])
    assert accuracy.value >= 98


@pytest.mark.slow
def test_a_word_is_labelled_by_the_word_before_it(side):
    labels = Labels(("after w0 to w9", "other"))

    def examples(count: int, seed: int) -> list[Tagged]:
        small = set(WORDS[:10])
        return [
            Tagged(tuple(words), tuple(labels.names[before not in small] for before in ["", *words[:-1]]), 1)
            for words in texts(count, seed=seed)
        ]

    model = build("encoder", side, lambda: TokenHead(size=32, labels=2, dropout=0.0))
    learn(model, TaggedIds.build(examples(1000, 1), side, labels, longest=20), token_labels(0.0), updates=400)
    unseen = examples(200, 2)
    tags = Tagger(model, side, labels).tag([one.words for one in unseen])
    predicted = [tag.label for some in tags for tag in some]
    accuracy, _ = classification_scores(predicted, [label for one in unseen for label in one.labels])
    assert accuracy.value >= 95


@pytest.mark.slow
def test_a_question_is_answered_by_the_same_word_in_the_context_in_any_window(side):
    layout = WindowSettings(longest=10, longest_question=1, stride=4)

    def questions(count: int, seed: int) -> list[Question]:
        generator = random.Random(seed)
        found = []
        for _ in range(count):
            words = generator.sample(WORDS, k=generator.randint(3, 11))
            asked = generator.choice([*words, *WORDS])  # now and then there is no answer
            context = " ".join(words)
            answers = (Located(asked, f" {context} ".index(f" {asked} ")),) if asked in words else ()
            found.append(Question("q", asked, context, answers, ""))
        return found

    model = build("encoder", side, lambda: SpanHead(size=32, dropout=0.0))
    learn(model, QuestionIds.build(questions(2000, 1), side, layout), spans(0.0), updates=700)
    unseen = questions(200, 2)
    answerer = Answerer(model, side, layout=layout)
    answers = answerer.answers(
        [(one.question, one.context) for one in unseen], answerer.settings.model_copy(update={"threshold": 0.0})
    )
    exact, _ = span_scores([some[0].text for some in answers], [one.accepted for one in unseen])
    assert exact.value >= 95, str(exact)
