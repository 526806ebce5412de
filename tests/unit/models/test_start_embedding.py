"""Decoders that start from a zero embedding."""

import torch

from dragoman.models.config import EncoderDecoderConfig
from dragoman.models.factory import build_encoder_decoder
from dragoman.models.special_symbols import BOS

SIZES = {"d_model": 8, "num_heads": 2, "d_ff": 12, "encoder_layers": 1, "decoder_layers": 1}


def test_zero_start_embedding_stays_zero_in_training() -> None:
    torch.manual_seed(0)
    config = EncoderDecoderConfig.model_validate({**SIZES, "start_embedding": "zero"})
    model = build_encoder_decoder(config, source_vocabulary=11, target_vocabulary=11)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    table = model.target_embedding.tokens.weight
    before = table.detach().clone()
    for _ in range(3):
        optimizer.zero_grad()
        logits = model(torch.tensor([[5, 6, 3]]), torch.tensor([3]), torch.tensor([[BOS, 7, 8]]))
        logits.log_softmax(dim=-1).square().sum().backward()
        optimizer.step()
    assert not table[BOS].any()
    assert (table != before).any(dim=1).sum() == 10
