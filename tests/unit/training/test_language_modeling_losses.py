"""Losses of language models: the summed positions, and the arguments of the model."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.data.batching.packing import TextBatch, windows_in_order
from dragoman.data.mlm_masking import MaskingConfig, masked_lm_in_order
from dragoman.models.config import DecoderOnlyConfig, EncoderOnlyConfig
from dragoman.training.losses import TrainableDecoderOnly, TrainableEncoderOnly, causal_lm_loss, masked_lm_loss
from dragoman.training.step import LossFunction, compute_gradients
from tests.in_memory_text import ragged
from tests.random_models import NO_DROPOUT, random_causal, random_encoder

VOCABULARY, SIZE = 31, 7
TEXTS = [[4 + (n * k * k) % 27 for k in range(1 + n * 5 % 13)] for n in range(11)]


class Causal(nn.Module):
    """Model whose hidden state is the mean of all embeddings of the document so far."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, SIZE)
        self.unembedding = nn.Linear(SIZE, VOCABULARY)
        self.told: list[bool] = []

    def hidden(self, tokens: Tensor, documents: Tensor | None = None) -> Tensor:
        self.told.append(documents is not None)
        allowed = torch.ones(tokens.shape[1], tokens.shape[1]).tril().bool().expand(len(tokens), -1, -1)
        if documents is not None:
            allowed = allowed & (documents[:, :, None] == documents[:, None, :])
        return allowed.float() @ self.embedding(tokens) / allowed.sum(dim=-1, keepdim=True)


class Encoder(nn.Module):
    """Model whose hidden state is the mean of all embeddings of the text, with a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY + 1, SIZE)
        self.head = nn.Linear(SIZE, SIZE)
        self.unembedding = nn.Linear(SIZE, VOCABULARY + 1, bias=False)
        self.asked = 0

    def hidden(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        real = (torch.arange(tokens.shape[1]) < lengths[:, None])[:, :, None]
        mean = (self.embedding(tokens) * real).sum(dim=1, keepdim=True) / lengths[:, None, None]
        return mean + self.embedding(tokens)

    def mlm_hidden(self, hidden: Tensor) -> Tensor:
        self.asked += len(hidden)
        return self.head(hidden).tanh()


def windows(context: int, rows: int) -> list[TextBatch]:
    return list(windows_in_order(ragged(TEXTS), context_length=context, budget=context * rows))


def masked_batches(budget: int) -> list[TextBatch]:
    settings = {"vocab_size": VOCABULARY, "context_length": 15, "masking": MaskingConfig(rate=0.3)}
    return list(masked_lm_in_order(ragged(TEXTS), budget=budget, **settings))


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        yield


def test_models_satisfy_the_protocols():
    assert isinstance(Causal(), TrainableDecoderOnly)
    assert isinstance(Encoder(), TrainableEncoderOnly)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_causal_loss_counts_masked_in_positions(smoothing):
    model, [batch] = Causal(), windows(9, 100)
    loss = causal_lm_loss(smoothing)(model, batch)
    logits = model.unembedding(model.hidden(batch.tokens, batch.document_ids))
    expected = batch.labels.masked_fill(~batch.loss_mask, -100).flatten()
    theirs = F.cross_entropy(logits.flatten(0, 1), expected, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss.value, theirs)
    plain = F.cross_entropy(logits.flatten(0, 1), expected, reduction="sum")
    torch.testing.assert_close(loss.negative_log_likelihood, plain.detach())


def test_causal_loss_passes_ids_of_several_documents():
    model = Causal()
    for batch, several in zip([windows(9, 100)[0], windows(3, 1)[0]], [True, False], strict=True):
        causal_lm_loss()(model, batch)
        assert model.told.pop() is several


def test_causal_loss_omits_ids_of_one_document():
    [batch] = windows_in_order(ragged([[4, 5, 6, 7, 8, 9, 10]]), context_length=5, budget=10)
    model = Causal()
    loss = causal_lm_loss()(model, batch).value
    model.hidden = lambda tokens, _: Causal.hidden(model, tokens, batch.document_ids)
    torch.testing.assert_close(loss, causal_lm_loss()(model, batch).value)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_masked_lm_loss_uses_the_transformed_states(smoothing):
    model, [batch] = Encoder(), masked_batches(10_000)
    loss = masked_lm_loss(smoothing)(model, batch)
    assert model.asked == batch.target_count
    logits = model.unembedding(model.mlm_hidden(model.hidden(batch.tokens, batch.lengths)))
    expected = batch.labels.masked_fill(~batch.loss_mask, -100).flatten()
    theirs = F.cross_entropy(logits.flatten(0, 1), expected, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss.value, theirs)


@pytest.mark.parametrize(
    ("model", "objective", "whole", "parts"),
    [
        (Causal, causal_lm_loss(0.1), windows(9, 100), windows(9, 2)),
        (Encoder, masked_lm_loss(0.1), masked_batches(10_000), masked_batches(31)),
    ],
    ids=["causal", "encoder"],
)
def test_gradients_do_not_depend_on_the_batches(
    model: type[nn.Module], objective: LossFunction, whole: list[TextBatch], parts: list[TextBatch]
):
    assert len(whole) < len(parts)
    network = model()
    found = []
    for batches in (whole, parts):
        network.zero_grad()
        sums = compute_gradients(network, batches, objective, seeds=(1, 1), precision="float32")
        found.append((sums, [parameter.grad.clone() for parameter in network.parameters()]))
    (one, gradients), (other, others) = found
    assert one == pytest.approx(other)
    assert one[2] == sum(batch.target_count for batch in parts)
    torch.testing.assert_close(gradients, others)


SMALL = {"d_model": 6, "num_heads": 2, "num_layers": 2, "d_ff": 11, "dropout": NO_DROPOUT}


def test_packed_documents_have_their_losses_alone():
    model = random_causal(DecoderOnlyConfig(**SMALL), vocabulary=VOCABULARY)
    [batch] = windows(1000, 1)
    together = causal_lm_loss()(model, batch)
    alone = [
        causal_lm_loss()(model, next(windows_in_order(ragged([text]), context_length=20, budget=20))) for text in TEXTS
    ]
    assert batch.has_multiple_documents
    torch.testing.assert_close(together.value, sum(loss.value for loss in alone))


def test_masked_tokens_have_their_losses_alone():
    model = random_encoder(EncoderOnlyConfig(**SMALL), vocabulary=VOCABULARY + 1)
    [whole], parts = masked_batches(10_000), masked_batches(15)
    together = masked_lm_loss()(model, whole)
    alone = [masked_lm_loss()(model, batch) for batch in parts]
    assert [len(batch) for batch in parts[-3:]] == [1, 1, 1]
    torch.testing.assert_close(together.value, sum(loss.value for loss in alone))
