"""Configurations of transformers varied one key at a time: does an import compute the same, or does it name the key?

    python -m tests.configuration_variations --group bart --count 300 --json bart.json

Values come from the configuration classes of transformers, which is also the judge. The import runs as on a computer
without transformers, so that its self-check has nothing to compare with. A variation is

| outcome | meaning |
|---|---|
| equal | logits, greedy and beam outputs are those of transformers |
| refused | an error, which names the key, instead of a run |
| unnamed | an error that does not name the key |
| noted | other outputs, and a note of the import that names the key |
| different | other logits or outputs |
| crashed | an error of another kind than `DragomanError` |
| no judge | transformers itself fails, or lacks weights |
"""

import argparse
import json
import random
import shutil
import tempfile
import typing
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import transformers

from dragoman.errors import DragomanError
from dragoman.interop.huggingface import decoder_only, encoder_only, seq2seq
from dragoman.runs.import_model import import_model
from tests import huggingface_decoders, huggingface_encoders, huggingface_models
from tests.huggingface_models import sentences
from tests.imported_results import LENGTH, describe_difference, our_results

CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer_config.json"
REMOVED = "(removed)"
"""Value of a key that a variation removes."""
WRITERS = {
    **huggingface_models.WRITERS,
    **huggingface_decoders.WRITERS,
    **huggingface_encoders.WRITERS,
}
GROUPS = {
    "bart": ("marian", "bart", "mbart", "m2m_100", "pegasus"),
    "bert": ("bert", "bert_base", "roberta", "roberta_base", "distilbert", "distilbert_base"),
    "gpt2": ("gpt2",),
    "llama": ("llama", "smollm", "mistral", "qwen2"),
    "t5": ("t5", "t5_v1_1", "mt5", "mt5_untied"),
}
"""Models of each group of families, by their names in `WRITERS`."""
LANGUAGES = {"m2m_100": ("en", "fr"), "mbart": ("en_XX", "ro_RO")}
TEXTS = sentences(4, seed=11)
PROMPT = 9
"""Characters of a prompt."""


@dataclass(frozen=True)
class Variation:
    """One key of one file with another value."""

    file: str
    key: str
    value: Any

    def __str__(self) -> str:
        return f"{self.file}: {self.key} = {json.dumps(self.value)}"

    def apply(self, folder: Path) -> None:
        """Change the file in a folder."""
        path = folder / self.file
        tree = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        tree.pop(self.key, None)
        if self.value != REMOVED:
            tree[self.key] = self.value
        path.write_text(json.dumps(tree), encoding="utf-8")


@dataclass(frozen=True)
class Outcome:
    """Result of one variation."""

    model: str
    variation: Variation
    outcome: str
    message: str = ""


GENERATION_VALUES: Mapping[str, tuple[Any, ...]] = {
    "bad_words_ids": ([[7]], [[7], [9], [11]], [[7, 9]], []),
    "begin_suppress_tokens": ([7], []),
    "bos_token_id": (0, 1, 2, 5, REMOVED, None),
    "cache_implementation": ("static",),
    "decoder_start_token_id": (0, 1, 2, 5, REMOVED),
    "diversity_penalty": (0.0,),
    "do_sample": (False, None),
    "early_stopping": (True, False, "never", None, REMOVED),
    "encoder_no_repeat_ngram_size": (0, 1, 2),
    "encoder_repetition_penalty": (1.0, 1.7),
    "eos_token_id": (0, 1, 2, [1, 6], [2, 6, 7], [2], 5, REMOVED),
    "epsilon_cutoff": (0.0, 0.3),
    "exponential_decay_length_penalty": ([2, 1.5], None),
    "forced_bos_token_id": (0, 1, 2, 5, 9, None),
    "forced_eos_token_id": (0, 1, 2, [1], [2], 5, None, REMOVED),
    "guidance_scale": (1.0, 1.5),
    "length_penalty": (0.0, 0.5, 1.0, 2.0, -0.5, None, REMOVED),
    "low_memory": (True,),
    "max_length": (5, 9, 30, REMOVED),
    "max_new_tokens": (3, 8, None),
    "max_time": (1000.0,),
    "min_length": (0, 3, 7, 12, None),
    "min_new_tokens": (0, 3, 7, None),
    "min_p": (0.1,),
    "no_repeat_ngram_size": (0, 1, 2, 3, None),
    "num_beam_groups": (1, 2),
    "num_beams": (1, 2, 3, 5, None, REMOVED),
    "num_return_sequences": (1, 2),
    "output_scores": (True,),
    "pad_token_id": (0, 1, 2, 5, None, REMOVED),
    "penalty_alpha": (0.6,),
    "prompt_lookup_num_tokens": (3,),
    "remove_invalid_values": (True, False),
    "renormalize_logits": (True, False),
    "repetition_penalty": (1.0, 1.3, 5.0, None),
    "return_dict_in_generate": (False,),
    "sequence_bias": ([[[7], -9.0]], [[[9], 9.0]], None),
    "stop_strings": (["a"],),
    "suppress_tokens": ([7], [5, 6, 7, 8, 9, 10], [], None),
    "temperature": (0.5, 1.0),
    "token_healing": (True,),
    "top_h": (0.5,),
    "top_k": (5, 50),
    "top_p": (0.5, 1.0),
    "typical_p": (0.5, 1.0),
    "use_cache": (True, False),
    "use_mtp": (True, False),
    "watermarking_config": ({"bias": 2.5, "seeding_scheme": "lefthash"},),
    "some_new_key": (1,),
}
TOKENIZER_VALUES: Mapping[str, tuple[Any, ...]] = {
    "add_bos_token": (True, False),
    "add_eos_token": (True, False),
    "add_prefix_space": (True, False),
    "clean_up_tokenization_spaces": (True, False),
    "do_lower_case": (True, False),
    "legacy": (True, False),
    "legacy_behaviour": (True, False),
    "model_max_length": (5, 9, 512, None),
    "padding_side": ("left", "right"),
    "strip_accents": (True, False),
    "tokenize_chinese_chars": (False,),
    "truncation_side": ("left",),
    "unk_token": ("<unk>", "z"),
    "eos_token": ("</s>", "."),
    "bos_token": ("<s>", "."),
    "pad_token": ("<pad>", "."),
    "split_special_tokens": (True,),
    "src_lang": ("en_XX", "en"),
    "tgt_lang": ("ro_RO", "fr"),
    "extra_ids": (0, 10, 20),
    "some_new_key": (1,),
}
ROPE_VALUES: tuple[Any, ...] = (
    {"rope_type": "default", "rope_theta": 77.0},
    {"rope_type": "linear", "factor": 3.0},
    {"type": "linear", "factor": 3.0},
    {"rope_theta": 77.0},
    {"factor": 3.0},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "yarn", "factor": 2.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    {**huggingface_decoders.LLAMA3, "original_max_position_embeddings": 16},
    {"rope_type": "linear", "factor": 3.0, "rope_theta": 9.0, "partial_rotary_factor": 0.5},
    {"rope_type": "default", "some_new_key": 1},
    {},
)
OTHER_VALUES: Mapping[str, tuple[Any, ...]] = {
    "rope_parameters": ROPE_VALUES,
    "rope_scaling": ROPE_VALUES,
    "rope_theta": (77.0, 10000, None),
    "rope_interleaved": (True, False),
    "partial_rotary_factor": (0.5, 1.0, 1),
    "layer_types": (["full_attention"] * 3, ["sliding_attention"] * 3, ["full_attention", "sliding_attention"] * 2),
    "sliding_window": (3, 5, 4096, None, REMOVED),
    "quantization_config": ({"quant_method": "fp8"},),
    "per_layer_config": ({"1": {"hidden_act": "relu"}}, None),
    "tie_last_hidden_states": (True, False),
    "problem_type": ("single_label_classification",),
    "task_specific_params": ({"translation_en_to_fr": {"prefix": "translate English to French: "}}, {}),
    "prefix": ("a", ""),
    "id2label": ({"0": "A", "1": "B"},),
    "attention_bias": (False, True),
    "mlp_bias": (False, True),
    "qkv_bias": (True,),
    "head_dim": (10, 6, None),
    "hidden_size": (36, 37),
    "num_hidden_layers": (1, 2, 3),
    "num_attention_heads": (2, 4, 6),
    "max_position_embeddings": (61, 30),
    "n_positions": (61, 30),
    "n_ctx": (30,),
    "chunk_size_feed_forward": (1,),
    "is_encoder_decoder": (True, False),
    "torch_dtype": ("float32", "bfloat16"),
    "dtype": ("bfloat16",),
    "tokenizer_class": ("T5Tokenizer",),
    "normalize_before": (True, False),
    "normalize_embedding": (True, False),
    "add_final_layer_norm": (True, False),
    "add_bias_logits": (True, False),
    "static_position_embeddings": (True, False),
    "force_bos_token_to_be_generated": (True, False),
    "extra_pos_embeddings": (2, 0),
    "position_embedding_type": ("absolute", "relative_key"),
    "pruned_heads": ({}, {"0": [1]}),
    "add_cross_attention": (True, False),
    "is_decoder": (True, False),
    "scale_decoder_outputs": (True, False),
    "feed_forward_proj": ("relu", "gelu", "gated-gelu", "gated-silu", "gated-relu", "silu", "gated-tanh", "x-relu"),
    "dense_act_fn": ("relu", "gelu"),
    "is_gated_act": (True, False),
    "tie_word_embeddings": (True, False, None, REMOVED),
    "pretraining_tp": (1, 2),
    "attn_implementation": ("eager", "sdpa"),
    "some_new_key": (1, None),
}
"""Values of keys that a type does not suggest, and of keys that the classes lack and files have."""
ACTIVATION_KEYS = frozenset(["activation_function", "hidden_act", "activation"])


def variations(model: str, folder: Path) -> list[Variation]:
    """Return all variations of a model, in a random order that is the same each time."""
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    changes = [Variation(CONFIG, *pair) for pair in _config_values(config)]
    if model not in huggingface_encoders.WRITERS:
        pairs = [(key, value) for key, values in GENERATION_VALUES.items() for value in values]
        changes += [Variation(GENERATION, *pair) for pair in pairs]
        changes += [Variation(CONFIG, *pair) for pair in pairs if pair[0].endswith("token_id")]
    changes += [Variation(TOKENIZER, key, value) for key, values in TOKENIZER_VALUES.items() for value in values]
    unique = {str(change): change for change in changes}
    return random.Random(5).sample(list(unique.values()), len(unique))


def _config_values(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield keys of a configuration with other values, by the class of transformers and its types."""
    known = transformers.AutoConfig.for_model(config["model_type"])
    names = [field.name for field in dataclass_fields(known)]
    for key in dict.fromkeys([*names, *known.attribute_map, *config]):
        if key in ("model_type", "transformers_version", "vocab_size", "decoder_vocab_size"):
            continue
        yield key, REMOVED
        yield key, None
        value = config.get(key, getattr(known, key, None))
        yield from ((key, other) for other in _other_values(key, value))
    for key, values in OTHER_VALUES.items():
        yield from ((key, value) for value in values)


def _other_values(key: str, value: Any) -> tuple[Any, ...]:
    if key in ACTIVATION_KEYS:
        return (*typing.cast(Any, transformers.activations.ACT2FN), "no_activation")
    match value:
        case bool():
            return (not value, "yes")
        case int():
            return (value + 1, value - 1, 2 * value, 0, -1, float(value))
        case float():
            return (0.0, value * 3, value / 2, 1, "high")
        case str():
            return ("some_word",)
    return ()


class Judge:
    """Folder of a model, its variations, and transformers."""

    def __init__(self, model: str, folder: Path) -> None:
        self.model = model
        self.original = folder / "original"
        self.original.mkdir(parents=True)
        self.work = folder / "work"
        write_model(model, self.original)
        self.expected_tensors = _loading_problems(self._load(self.original)[1])

    def judge(self, *changes: Variation) -> Outcome:
        """Return the outcome of an import with these changes, the last of which it should name if it refuses."""
        shutil.rmtree(self.work, ignore_errors=True)
        source = self.work / "source"
        shutil.copytree(self.original, source)
        for change in changes:
            change.apply(source)
        theirs, reason = self._theirs(source)
        outcome, message = self._compare(source, theirs, changes[-1].key)
        return Outcome(self.model, changes[-1], outcome, " ".join(filter(None, [message, reason])))

    def _compare(self, source: Path, theirs: Any, key: str) -> tuple[str, str]:
        languages = dict(zip(("source_language", "target_language"), LANGUAGES.get(self.model, ()), strict=False))
        try:
            with warnings.catch_warnings(), without_transformers():
                warnings.simplefilter("ignore")
                result = import_model(source, self.work / "run", **languages)
                ours = our_results(self.work / "run")
        except DragomanError as error:
            named = key in str(error)
            if theirs is None:
                return "no judge", ""
            return "refused" if named else "unnamed", str(error)
        except Exception as error:
            return "crashed", f"{type(error).__name__}: {error}"
        if theirs is None:
            return "no judge", "imported"
        difference = describe_difference(ours, theirs)
        if not difference:
            return "equal", ""
        noted = any(key in note for note in result.notes)
        return "noted" if noted else "different", difference

    def _load(self, source: Path) -> tuple[Any, Any]:
        name = json.loads((self.original / CONFIG).read_text(encoding="utf-8"))["architectures"][0]
        loaded: tuple[Any, Any] = getattr(transformers, name).from_pretrained(
            source, output_loading_info=True, dtype=torch.float32, attn_implementation="eager"
        )
        return loaded

    def _theirs(self, source: Path) -> tuple[Any, str]:
        """Return logits and outputs of transformers; None with the reason if it fails."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model, info = self._load(source)
                if (problems := _loading_problems(info)) - self.expected_tensors:
                    return None, f"tensors: {sorted(problems)[:3]}"
                tokenizer = transformers.AutoTokenizer.from_pretrained(
                    source, **({"src_lang": LANGUAGES[self.model][0]} if self.model in LANGUAGES else {})
                )
                return their_results(model.eval(), tokenizer, LANGUAGES.get(self.model)), ""
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"


def _loading_problems(info: Mapping[str, Any]) -> set[str]:
    return {str(name) for key in ("missing_keys", "mismatched_keys", "unexpected_keys") for name in info[key]}


class without_transformers:  # noqa: N801  # a context manager
    """Hide transformers from the import, as on a computer without it."""

    def __enter__(self) -> None:
        self._patches = [
            patch.object(one, "find_spec", lambda name: None) for one in (seq2seq, decoder_only, encoder_only)
        ]
        for one in self._patches:
            one.start()

    def __exit__(self, *_: object) -> None:
        for one in self._patches:
            one.stop()


def write_model(model: str, folder: Path) -> None:
    """Write a model whose outputs never contain the padding symbol, and end after a few tokens."""
    loaded = WRITERS[model](folder)
    if model in huggingface_encoders.WRITERS:
        return
    config, generation = loaded.config, loaded.generation_config
    pads = {config.pad_token_id, getattr(config, "decoder_start_token_id", None)} - {None, config.eos_token_id}
    with torch.no_grad():
        for pad in pads:
            loaded.get_input_embeddings().weight[pad] = 0
            loaded.get_output_embeddings().weight[pad] = 0
            if hasattr(loaded, "final_logits_bias"):
                loaded.final_logits_bias[0, pad] = -100
    if config.is_encoder_decoder:
        generation.update(max_length=LENGTH)
    loaded.save_pretrained(folder)


def their_results(
    model: Any, tokenizer: Any, languages: tuple[str, str] | None, *, texts: Sequence[str] = TEXTS
) -> dict[str, Any]:
    """Return logits, outputs and the ids of the texts, by transformers; a language model reads their beginnings."""
    places = (15, 29, 3, 11, 8, 30, 7)  # apart from special symbols, and from symbols that variations name
    ids = torch.tensor([[10 + place % (model.config.vocab_size - 10) for place in places]])
    with torch.inference_mode():
        if model.config.is_encoder_decoder:
            found = model(input_ids=ids, decoder_input_ids=ids[:, 2:], use_cache=False).logits[0]
        else:
            output = model(ids)
            found = (output.logits if hasattr(output, "logits") else output.last_hidden_state)[0]
        results: dict[str, Any] = {"logits": found.numpy(), "ids": ids[0].tolist()}
        if not model.can_generate():
            return results | {"texts": texts, "inputs": [tokenizer(text)["input_ids"] for text in texts]}
        return results | _their_outputs(model, tokenizer, languages, texts)


def _their_outputs(
    model: Any, tokenizer: Any, languages: tuple[str, str] | None, texts: Sequence[str]
) -> dict[str, Any]:
    is_seq2seq = model.config.is_encoder_decoder
    options: dict[str, Any] = {} if is_seq2seq else {"max_new_tokens": LENGTH}
    if languages is not None:
        name = f"__{languages[1]}__" if "m2m" in model.config.model_type else languages[1]
        options["forced_bos_token_id"] = tokenizer.convert_tokens_to_ids(name)
    ends = model.generation_config.eos_token_id
    ends = set(ends if isinstance(ends, list) else [ends])
    searches: dict[str, dict[str, Any]] = {"outputs": {}}
    if not is_seq2seq:
        searches["searched"] = {"num_beams": 3, "length_penalty": 1.0, "early_stopping": True}
    texts = texts if is_seq2seq else [text[:PROMPT] for text in texts]
    found: dict[str, list[list[int]]] = {name: [] for name in (*searches, "inputs")}
    for text in texts:
        batch = tokenizer(text, return_tensors="pt")
        inputs = batch["input_ids"]
        found["inputs"].append(inputs[0].tolist())
        for name, extra in searches.items():
            row = model.generate(inputs, attention_mask=batch["attention_mask"], **options, **extra)[0].tolist()
            row = row[1 if is_seq2seq else inputs.shape[1] :]
            length = next((place for place, token in enumerate(row) if token in ends), len(row))
            found[name].append(row[:length])
    return {**found, "texts": texts}


def main() -> None:
    """Judge the variations of a group and print the table of outcomes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--group", choices=GROUPS, default="t5")
    parser.add_argument("--model")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    models = [options.model] if options.model else GROUPS[options.group]
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            judge = Judge(model, Path(folder) / model)
            chosen = variations(model, judge.original)[: max(1, options.count // len(models))]
            outcomes += [judge.judge(change) for change in chosen]
    for outcome in outcomes:
        if outcome.outcome not in ("equal", "refused") or options.verbose:
            print(f"{outcome.outcome:9} {outcome.model}: {outcome.variation}\n          {outcome.message[:300]}")
    counts = Counter((outcome.model, outcome.outcome) for outcome in outcomes)
    for (model, name), count in sorted(counts.items()):
        print(f"{model:16} {name:10} {count}")
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
