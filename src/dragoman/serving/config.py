"""Settings of the server."""

from ipaddress import ip_network
from typing import Literal

from pydantic import Field, field_validator

from dragoman.config import Config
from dragoman.inference.control.glossary_terms import GlossaryMode
from dragoman.runs.load import RequestedComputeType

ProtectedTexts = Literal["markup", "always", "never"]
KIB, MIB = 1024, 1024**2


class ModelConfig(Config):
    """A run folder to serve."""

    path: str = Field(min_length=1, description="run folder or exported model")
    name: str | None = Field(
        default=None, pattern=r"^[\w.:/@+-]{1,128}$", description="name for clients; default: the folder's"
    )
    source_language: str | None = Field(
        default=None, description="language code of the source, for a model of one pair"
    )
    target_language: str | None = Field(
        default=None, description="language code of the target, for a model of one pair"
    )


class GlossaryConfig(Config):
    """A glossary that every translation of a language pair applies."""

    path: str = Field(min_length=1, description="file of terms: TSV, CSV or TBX")
    source_language: str = Field(description="language code of the source")
    target_language: str = Field(description="language code of the target")
    mode: GlossaryMode = Field(default="hard", description="how terms are applied: `hard`, `soft` or `annotated`")


class LimitsConfig(Config):
    """Limits of one request, and of the requests at a time."""

    max_characters: int = Field(default=50_000, ge=1, description="characters of a request, all its texts together")
    max_texts: int = Field(default=1000, ge=1, description="texts of a request")
    max_beam_size: int = Field(default=16, ge=1, le=100, description="beam size that a request may choose")
    max_n_best: int = Field(default=10, ge=1, le=100, description="translations or completions of one text")
    max_new_tokens: int = Field(default=2048, ge=1, description="tokens of a completion")
    max_explained: int = Field(
        default=1000, ge=1, description="characters of a text and its translation whose attention is shown"
    )
    max_requests: int = Field(default=256, ge=1, description="requests answered at once; others get status 503")
    requests_per_minute: int = Field(default=0, ge=0, description="requests of one key or address; 0: any number")
    wrong_keys_per_minute: int = Field(
        default=30, ge=0, description="wrong keys of one address that get status 401 or 403, others 429; 0: any number"
    )
    characters_per_month: int = Field(
        default=0, ge=0, description="characters of one key in a month, or of all clients without keys; 0: any number"
    )
    max_glossaries: int = Field(
        default=1000, ge=0, description="glossaries that one key stores, or all clients without keys; 0: none"
    )
    max_glossary_entries: int = Field(default=100_000, ge=1, description="entries of all these glossaries together")
    max_terms: int = Field(default=10_000, ge=0, description="terms of the glossary in a request")
    max_body: int = Field(default=2 * MIB, ge=KIB, description="bytes of the body of a request without a file")
    max_file: int = Field(default=20 * MIB, ge=KIB, description="bytes of a file to translate")
    body_timeout: float = Field(
        default=30.0, gt=0, description="seconds in which the headers of a request have to arrive, and then its body"
    )
    analysis_timeout: float = Field(
        default=60.0,
        gt=0,
        description="seconds of computing for the analysis of a long text or of a file, the time of the model not "
        "counted, after which the request gets status 503",
    )
    timeout: float = Field(
        default=120.0, gt=0, description="seconds after which a request that is not answered gets status 503"
    )


class ServerConfig(Config):
    """Settings of `dragoman serve`."""

    host: str = Field(default="127.0.0.1", description="address to listen on; 0.0.0.0: all addresses of this machine")
    port: int = Field(default=8000, ge=0, le=65535, description="port to listen on; 0: any free port")
    models: tuple[ModelConfig, ...] = Field(default=(), description="models to serve")
    glossaries: tuple[GlossaryConfig, ...] = Field(default=(), description="glossaries that always apply")
    placeholders: ProtectedTexts = Field(
        default="markup",
        description="texts whose placeholders, such as `{name}`, are protected: `markup` (HTML, XML and files), "
        "`always` or `never`; requests of the native interface may say otherwise",
    )
    api_keys: str | None = Field(
        default=None, description="file of the keys that clients must give; default: no key is needed"
    )
    usage_file: str | None = Field(
        default=None, description="file that keeps the characters of the month; default: a restart forgets them"
    )
    glossary_folder: str | None = Field(
        default=None, description="folder that keeps the glossaries of clients; default: a restart forgets them"
    )
    cors_origins: tuple[str, ...] = Field(default=(), description="web sites whose pages may call the server; `*`: all")
    trusted_proxies: tuple[str, ...] = Field(
        default=("127.0.0.1", "::1"),
        description="addresses and networks of reverse proxies, whose X-Forwarded-For tells the address of the client",
    )
    device: str | None = Field(default=None, description="device of all models")
    compute_type: RequestedComputeType = Field(default="auto", description="number format for inference")
    explanations: bool = Field(
        default=True,
        description="show attention and beam searches, for which PyTorch loads a model again at the first request",
    )
    workers: int = Field(
        default=2, ge=1, le=64, description="processes that analyze long texts at most, and as many for files"
    )
    reload_interval: float = Field(
        default=2.0, ge=0, description="seconds between looks for changed run folders; 0: never"
    )
    drain_timeout: float = Field(default=30.0, ge=0, description="seconds that running requests have after SIGTERM")
    limits: LimitsConfig = LimitsConfig()

    @field_validator("trusted_proxies")
    @classmethod
    def _check_proxies(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            try:
                ip_network(proxy)
            except ValueError:
                raise ValueError(f"{proxy!r} is no address; give one such as 10.0.0.1, or 10.0.0.0/8") from None
        return proxies

    @field_validator("cors_origins")
    @classmethod
    def _check_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if origin != "*" and not origin.startswith(("http://", "https://")):
                raise ValueError(f"{origin!r} is no origin; give one such as https://example.org, or *")
        return origins
