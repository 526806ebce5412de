"""Small models with task heads learn to classify texts, tag words and answer questions within a minute."""

import random

import pytest
import torch

from dragoman.data.batching.example_batches import example_stream
from dragoman.data.datasets.labeled import LabeledDataset, Labels
from dragoman.data.datasets.qa import QuestionDataset, WindowConfig
from dragoman.data.datasets.tagged import TaggedDataset
from dragoman.data.readers.labeled import LabeledText
from dragoman.data.readers.qa import AnswerSpan, Question
from dragoman.data.readers.tagged import TaggedSentence
from dragoman.data.tokenizers import LanguageTokenizer, Tokenizer, WordConfig
from dragoman.evaluation.classification_metrics import classification_scores
from dragoman.evaluation.squad_metrics import span_scores
from dragoman.inference import Classifier, QuestionAnswerer, Tagger
from dragoman.models.config import DecoderOnlyConfig, DropoutConfig, EncoderOnlyConfig
from dragoman.models.factory import build_decoder_only, build_encoder_only
from dragoman.models.task_heads import DecoderOnlyBackbone, ModelWithHead, SequenceHead, SpanHead, TokenHead
from dragoman.training.losses import classification_loss, question_answering_loss
from dragoman.training.step import compute_gradients

pytestmark = pytest.mark.slow

WORDS = [f"w{number}" for number in range(23)]
SIZES = {
    "d_model": 32,
    "num_heads": 4,
    "d_ff": 64,
    "num_layers": 2,
    "dropout": DropoutConfig(embedding=0.0, residual=0.0),
}


@pytest.fixture(scope="module")
def side() -> LanguageTokenizer:
    return Tokenizer.train(lambda: [(" ".join(WORDS), " ".join(WORDS))], WordConfig()).source


def texts(count: int, *, seed: int) -> list[list[str]]:
    """Return random word sequences; test and training texts do not overlap."""
    generator = random.Random(seed)
    return [generator.choices(WORDS, k=generator.randint(3, 11)) for _ in range(count)]


def train_model(model: ModelWithHead, ids, objective, *, updates: int) -> None:
    """Train with Adam over shuffled batches."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    stream = example_stream(ids, budget=500, seed=1)
    model.train()
    for update in range(updates):
        compute_gradients(model, [next(stream)], objective, seeds=(1, update), precision="float32")
        optimizer.step()
        optimizer.zero_grad()
    model.eval()


def build(kind: str, side: LanguageTokenizer, head) -> ModelWithHead:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        if kind == "causal":
            return ModelWithHead(
                DecoderOnlyBackbone(build_decoder_only(DecoderOnlyConfig(**SIZES), vocabulary=len(side))), head()
            )
        return ModelWithHead(
            build_encoder_only(EncoderOnlyConfig(**SIZES, num_segments=2), vocabulary=len(side)), head()
        )


@pytest.mark.parametrize(("kind", "pooling"), [("encoder", "first"), ("encoder", "mean"), ("causal", "last")])
def test_classifier_finds_a_word_anywhere_in_the_text(side, kind, pooling):
    """The label is the one of w0, w1 and w2 that occurs in the text."""
    labels = Labels(("w0", "w1", "w2"))

    def examples(count: int, seed: int) -> list[LabeledText]:
        generator = random.Random(seed)
        found = []
        for words in texts(count, seed=seed):
            rest = [word for word in words if word not in labels.names]
            label = generator.choice(labels.names)
            rest.insert(generator.randint(0, len(rest)), label)
            found.append(LabeledText(" ".join(rest), label, 1))
        return found

    model = build(kind, side, lambda: SequenceHead(d_model=32, num_labels=3, pooling=pooling, dense=True, dropout=0.0))
    train_model(
        model,
        LabeledDataset.build(examples(1000, 1), side.encode_batch, labels, max_length=20),
        classification_loss(0.0),
        updates=200,
    )
    unseen = examples(200, 2)
    found = Classifier(model, side, labels).classify([one.text for one in unseen])
    accuracy, _ = classification_scores([one.label for one in found], [one.label for one in unseen])
    assert accuracy.value >= 98


def test_tagger_reads_the_previous_word(side):
    labels = Labels(("after w0 to w9", "other"))

    def examples(count: int, seed: int) -> list[TaggedSentence]:
        small = set(WORDS[:10])
        return [
            TaggedSentence(tuple(words), tuple(labels.names[before not in small] for before in ["", *words[:-1]]), 1)
            for words in texts(count, seed=seed)
        ]

    model = build("encoder", side, lambda: TokenHead(d_model=32, num_labels=2, dropout=0.0))
    train_model(
        model,
        TaggedDataset.build(examples(1000, 1), side, labels, max_length=20),
        classification_loss(0.0),
        updates=400,
    )
    unseen = examples(200, 2)
    tags = Tagger(model, side, labels).tag([one.words for one in unseen])
    predicted = [tag.label for some in tags for tag in some]
    accuracy, _ = classification_scores(predicted, [label for one in unseen for label in one.labels])
    assert accuracy.value >= 95


def test_answerer_finds_the_word_in_any_window(side):
    layout = WindowConfig(max_length=10, max_question_length=1, stride=4)

    def questions(count: int, seed: int) -> list[Question]:
        generator = random.Random(seed)
        found = []
        for _ in range(count):
            words = generator.sample(WORDS, k=generator.randint(3, 11))
            asked = generator.choice([*words, *WORDS])  # now and then there is no answer
            context = " ".join(words)
            answers = (AnswerSpan(asked, f" {context} ".index(f" {asked} ")),) if asked in words else ()
            found.append(Question("q", asked, context, answers, ""))
        return found

    model = build("encoder", side, lambda: SpanHead(d_model=32, dropout=0.0))
    train_model(
        model, QuestionDataset.build(questions(2000, 1), side, layout), question_answering_loss(0.0), updates=700
    )
    unseen = questions(200, 2)
    answerer = QuestionAnswerer(model, side, windows=layout)
    answers = answerer.answer_batch(
        [(one.question, one.context) for one in unseen], answerer.config.model_copy(update={"no_answer_threshold": 0.0})
    )
    exact, _ = span_scores([some[0].text for some in answers], [one.accepted_answers for one in unseen])
    assert exact.value >= 95, str(exact)
