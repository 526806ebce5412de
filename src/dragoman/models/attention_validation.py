"""Validation of attentions: which scores, patterns and positions go together, and the heads that pruning leaves."""

from collections.abc import Sequence

from dragoman.nn.sparse.factory import NOT_CAUSAL

_KEY_VECTOR_SCORES = ("dot", "scaled_dot", "multiplicative")
_SUPPORTED_SCORES = {
    "rotary": (
        ("dot", "scaled_dot", "cosine"),
        "rotary positions, which need an inner product of queries and keys",
        "other positions",
    ),
    "shaw": (
        _KEY_VECTOR_SCORES,
        "shaw positions, which add vectors to the keys of an inner product",
        "other positions",
    ),
    "tree": (
        _KEY_VECTOR_SCORES,
        "tree positions, whose relations are vectors added to the keys of an inner product",
        "set model.positions.relative=false",
    ),
}
"""Scores that go with a kind of positions, the reason, and an alternative."""
_UNSUPPORTED_POSITIONS = {
    "linformer": (
        ("shaw", "t5_bias", "alibi", "rotary"),
        "its keys mix positions and have no distance; choose sinusoidal, learned or none",
    ),
    "bigbird": (
        ("shaw", "t5_bias", "alibi"),
        "its gathered blocks have no common distance; choose sinusoidal, learned, rotary or none",
    ),
}
"""Kinds of positions that do not go with a pattern, and the reason."""


def check_self_attention(
    key: str, *, score: str, pattern: str, positions: str, causal: bool, has_relations: bool
) -> None:
    """Raise ValueError if score, pattern and positions of a self-attention, given by kind, do not go together.

    `key` is that of the attention below `model`; `has_relations` says whether it has relations of tree positions.
    """
    if causal and pattern in NOT_CAUSAL:
        raise ValueError(
            f"model.{key}.pattern.kind = {pattern} works in encoders only: {NOT_CAUSAL[pattern]}; choose full or "
            "sliding_window"
        )
    if positions in _SUPPORTED_SCORES and (positions != "tree" or has_relations):
        scores, reason, alternative = _SUPPORTED_SCORES[positions]
        if score not in scores:
            raise ValueError(
                f"model.{key}.score.kind = {score} does not go with {reason}; choose {scores[0]}, {scores[1]} or "
                f"{scores[2]}, or {alternative}"
            )
    if pattern in _UNSUPPORTED_POSITIONS and positions in _UNSUPPORTED_POSITIONS[pattern][0]:
        raise ValueError(
            f"model.{key}.pattern.kind = {pattern} does not go with {positions} positions: "
            f"{_UNSUPPORTED_POSITIONS[pattern][1]}"
        )
    if has_relations and pattern != "full":
        raise ValueError(
            f"model.{key}.pattern.kind = {pattern} does not go with tree positions, whose relations connect words at "
            "any distance; choose full, or set model.positions.relative=false"
        )


def check_kept_heads(key: str, kept: Sequence[Sequence[int]], *, layers: int, heads: int, group: int) -> None:
    """Raise ValueError if `kept`, the heads left in each of the layers, cannot result from pruning."""
    key = f"model.{key}.kept_heads"
    if len(kept) != layers:
        raise ValueError(
            f"{key} lists the heads of {len(kept)} layers, but there are {layers}; give one list per layer"
        )
    for layer, left in enumerate(kept):
        if not left or list(left) != sorted(set(left)) or left[0] < 0 or left[-1] >= heads:
            raise ValueError(
                f"{key}[{layer}] = {list(left)} are not heads of {heads}; give at least one, in ascending order, from "
                f"0 to {heads - 1}"
            )
        if [head for head in range(heads) if head // group * group in left] != list(left):
            raise ValueError(
                f"{key}[{layer}] = {list(left)} splits groups: every {group} heads share their keys and values; list "
                "all heads of a group or none"
            )
