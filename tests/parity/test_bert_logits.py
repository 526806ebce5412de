"""States, masked tokens and labels equal those of random Hugging Face BERT models with the same weights."""

from typing import Any

import torch
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, BertModel

from dragoman.models.config import EncoderOnlyConfig, LearnedConfig
from dragoman.models.encoder_only import EncoderOnlyTransformer
from dragoman.models.task_heads import SequenceHead
from tests.fake_models import SYMBOLS, rectangle
from tests.random_models import NO_DROPOUT, random_encoder
from tests.weight_copying import copy_same, randomized

SIZE, HEADS, HIDDEN, PLACES, VOCABULARY = 35, 5, 53, 31, 43
TEXTS = [[2, 19, 23, 37, 3, 11, 3], [2, 5, 7, 11, 13, 3, 41, 4, 4, 3], [2, 3]]
SEGMENTS = [[0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 1, 1, 1, 1], [0, 0]]


def their_config() -> BertConfig:
    return BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=SIZE,
        num_hidden_layers=3,
        num_attention_heads=HEADS,
        intermediate_size=HIDDEN,
        hidden_act="gelu",
        max_position_embeddings=PLACES,
        type_vocab_size=2,
        layer_norm_eps=1e-5,
        pad_token_id=SYMBOLS.pad,
        num_labels=5,
    )


def ours() -> EncoderOnlyTransformer:
    config = EncoderOnlyConfig(
        d_model=SIZE,
        num_heads=HEADS,
        d_ff=HIDDEN,
        num_layers=3,
        activation="gelu",
        norm_position="post",
        norm_embedding=True,
        scale_embedding=False,
        num_segments=2,
        positions=LearnedConfig(max_length=PLACES),
        dropout=NO_DROPOUT,
    )
    return random_encoder(config, vocabulary=VOCABULARY)


@torch.no_grad()
def copy_trunk(partner: BertModel, model: EncoderOnlyTransformer) -> None:
    embeddings = partner.embeddings
    copy_same(embeddings.word_embeddings, model.embedding.tokens)
    copy_same(embeddings.position_embeddings, model.embedding.positions.table)
    copy_same(embeddings.token_type_embeddings, model.embedding.segments)
    copy_same(embeddings.LayerNorm, model.embedding.norm)
    for reference, block in zip(partner.encoder.layer, model.blocks, strict=True):
        copy_block(reference, block)


def copy_block(reference: Any, block: Any) -> None:
    own = block.attention
    for map_, mine in (
        (reference.attention.self.query, own.query),
        (reference.attention.self.key, own.key),
        (reference.attention.self.value, own.value),
        (reference.attention.output.dense, own.output),
        (reference.attention.output.LayerNorm, block.attention_residual.norm),
        (reference.intermediate.dense, block.feed_forward.inner),
        (reference.output.dense, block.feed_forward.outer),
        (reference.output.LayerNorm, block.feed_forward_residual.norm),
    ):
        copy_same(map_, mine)


def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return tokens, lengths, segments, and the mask of real positions."""
    tokens, lengths = rectangle(TEXTS)
    segments, _ = rectangle(SEGMENTS)
    return tokens, lengths, segments, torch.arange(tokens.shape[1]) < lengths[:, None]


@torch.no_grad()
def test_hidden_states_and_mlm_logits_equal_bert() -> None:
    partner, model = randomized(BertForMaskedLM, their_config()), ours()
    copy_trunk(partner.bert, model)
    predictions = partner.cls.predictions
    copy_same(predictions.transform.dense, model.head.linear)
    copy_same(predictions.transform.LayerNorm, model.head.norm)
    model.unembedding.bias.copy_(predictions.bias)
    tokens, lengths, segments, real = inputs()
    options = {"attention_mask": real.long(), "token_type_ids": segments}
    hidden = partner.bert(tokens, **options).last_hidden_state
    torch.testing.assert_close(model.hidden(tokens, lengths, segments)[real], hidden[real], atol=1e-4, rtol=1e-4)
    logits = partner(tokens, **options).logits
    torch.testing.assert_close(model(tokens, lengths, segments)[real], logits[real], atol=1e-4, rtol=1e-4)
    assert float(logits[real].std()) > 0.5


@torch.no_grad()
def test_pooled_labels_equal_bert() -> None:
    partner, model = randomized(BertForSequenceClassification, their_config()), ours()
    copy_trunk(partner.bert, model)
    head = SequenceHead(d_model=SIZE, num_labels=5, pooling="first", dense=True, dropout=0.0).eval()
    copy_same(partner.bert.pooler.dense, head.dense)
    copy_same(partner.classifier, head.output)
    tokens, lengths, segments, real = inputs()
    logits = partner(tokens, attention_mask=real.long(), token_type_ids=segments).logits
    ours_ = head(model.hidden(tokens, lengths, segments), lengths)
    torch.testing.assert_close(ours_, logits, atol=1e-4, rtol=1e-4)
    assert float(logits.std()) > 0.1
