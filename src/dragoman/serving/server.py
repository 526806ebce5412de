"""The server behind all protocols: models, limits, keys and metrics, and the work that requests ask for."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, final

from fastapi import Depends, Request

from dragoman.inference.alternatives import Alternative
from dragoman.runs.load import load
from dragoman.serving.access.admission import Admission, Client, RateLimit
from dragoman.serving.access.api_keys import ApiKeys
from dragoman.serving.access.character_usage import EVERYONE, CharacterUsage
from dragoman.serving.config import ServerConfig
from dragoman.serving.glossaries.glossary_store import GlossaryStore
from dragoman.serving.http.errors import RequestError, invalid
from dragoman.serving.http.requests import interface_of
from dragoman.serving.metrics import AnswerObserver, Metrics
from dragoman.serving.served_models import ModelStore
from dragoman.serving.translation.document_jobs import DocumentJob, DocumentStore
from dragoman.serving.translation.documents import check_filename
from dragoman.serving.translation.explanations import Explainer
from dragoman.serving.translation.languages import DetectedLanguage
from dragoman.serving.translation.service import TranslatedText, TranslationRequest, TranslationService
from dragoman.serving.translation.terms import read_glossaries
from dragoman.serving.translation.worker_translation import SHORT, TranslationWorkers, check_short


@final
class Server:
    """State of a server. Protocols call its methods, which raise RequestError where a request is not answered."""

    def __init__(self, config: ServerConfig) -> None:
        """Load all models. Raises RunError or ConfigError where one cannot be loaded."""
        self.config = config
        self.keys = None if config.api_keys is None else ApiKeys.read(Path(config.api_keys))
        default_quota = config.limits.characters_per_month
        quotas = {} if self.keys is None else self.keys.quotas(default_quota)
        self.store = ModelStore(
            config.models, lambda path: load(path, device=config.device, compute_type=config.compute_type)
        )
        self.admission = Admission(config.limits)
        self._wrong_keys = RateLimit(config.limits.wrong_keys_per_minute)
        self.usage = CharacterUsage(
            {_client_name(owner): limit for owner, limit in quotas.items()},
            default_limit=default_quota,
            file=None if config.usage_file is None else Path(config.usage_file),
        )
        self.metrics = Metrics(active_requests=lambda: self.admission.active, engines=self.store.engines)
        self.documents = DocumentStore()
        self.glossaries = GlossaryStore(
            config.limits, folder=None if config.glossary_folder is None else Path(config.glossary_folder)
        )
        glossaries = read_glossaries(config.glossaries, self.store)
        self._translation = TranslationService(self.store, glossaries, placeholders=config.placeholders)
        self.workers = TranslationWorkers(
            config, self.store, glossaries, on_timeout=self.metrics.count_analysis_timeout
        )
        self._explainer = Explainer()
        self.is_ready = False
        """Whether requests are accepted: False before the start and after the signal to end."""

    def start(self) -> None:
        """Accept requests from now on."""
        self.workers.prepare()
        self.is_ready = True

    async def close(self) -> None:
        """End the work in the background, and the workers."""
        await self.documents.close()
        await self.workers.close()
        await self.usage.save()

    def client_of(self, request: Request, key: str | None, *, status: int = 403) -> Client:
        """Return the client that has a key, or that has the address of the request where no keys are needed.

        Raises RequestError with a status if the key is missing or wrong, and with 429 after many wrong ones. A right
        key is accepted in any case: another user of the same address may have sent the wrong ones.
        """
        interface = interface_of(request)
        address = request.client.host if request.client is not None else ""
        if self.keys is None:
            return Client(address, interface)
        owner = self.keys.owner(key or "")
        if owner is not None:
            return Client(_client_name(owner), interface)
        if key and (wait := self._wrong_keys.take(address)):
            raise RequestError(429, "Too many wrong API keys. Correct the key, or try again later.", retry_after=wait)
        raise RequestError(status, "Invalid API key." if key else "An API key is required.")

    def account_of(self, client: Client) -> str:
        """Return the account whose glossaries a client uses: that of its key, or of all clients without keys."""
        return EVERYONE if self.keys is None else client.name

    @contextmanager
    def admit(self, client: Client) -> Iterator[None]:
        """Do the work of a request of a client. Raises RequestError above a limit."""
        if not self.is_ready:
            raise RequestError(503, "The server is shutting down.", retry_after=5)
        with self.admission.enter(client):
            yield

    def check_texts(self, texts: Sequence[str], *, n_best: int = 1, beam_size: int | None = None) -> None:
        """Raise RequestError if a request asks for more than the limits allow."""
        limits = self.config.limits
        if len(texts) > limits.max_texts:
            raise invalid(f"Invalid request: request ({len(texts):,}) exceeds text limit ({limits.max_texts:,})")
        self._check_characters(sum(map(len, texts)))
        if n_best > limits.max_n_best:
            raise invalid(f"Invalid request: at most {limits.max_n_best} alternatives are allowed")
        if beam_size is not None and beam_size > limits.max_beam_size:
            raise invalid(f"Invalid request: the beam size is at most {limits.max_beam_size}", "beam_size")

    def _check_characters(self, count: int) -> None:
        """Raise RequestError if there are more characters than a request may have."""
        if count > (limit := self.config.limits.max_characters):
            raise invalid(f"Invalid request: request ({count:,}) exceeds character limit ({limit:,})")

    async def detect(self, texts: Sequence[str], client: Client) -> list[Sequence[DetectedLanguage]]:
        """Return the languages that each text may be in, the most probable first."""
        self.check_texts(texts)
        with self.admit(client):
            if sum(map(len, texts)) <= SHORT:
                return await self._translation.detect(texts)
            return await self.workers.detect(texts, client=client.name)

    async def start_document(
        self, filename: str, content: bytes, asked: TranslationRequest, client: Client
    ) -> DocumentJob:
        """Start the translation of a file; the texts of `asked` are replaced by those of its units.

        Raises RequestError if the file cannot be translated, or asks for a language that is not supported.
        """
        check_filename(filename)
        self.store.find_target(asked.target)
        if asked.source is not None:
            self.store.find_pair(asked.source, asked.target)

        async def work(job: DocumentJob) -> bytes:
            with self.admit(client):
                return await self._translate_document(job, content, asked, client)

        return await self.documents.start(filename, len(content), client.name, work)

    async def _translate_document(
        self, job: DocumentJob, content: bytes, asked: TranslationRequest, client: Client
    ) -> bytes:
        """Return the translation of a file, whose characters count when it is read."""
        with ExitStack() as charged:
            observers: list[AnswerObserver] = []

            async def begin(characters: int) -> None:
                self._check_characters(characters)
                charged.enter_context(self.usage.charge(client.name, characters))
                observers.append(charged.enter_context(self.metrics.observe(characters, interface=client.interface)))
                job.start(characters)

            found = await self.workers.translate_document(job.filename, content, asked, client=client.name, begin=begin)
            for answer_with in observers:
                answer_with(found.model_name, found.characters)
            counts = {"terms": found.terms, "placeholders": found.placeholders, "unmet": found.unmet}
            self.metrics.count_control(found.model_name, client.interface, **counts)
            job.needs_review = found.needs_review
            return found.content

    async def translate(self, request: TranslationRequest, client: Client) -> list[TranslatedText]:
        """Translate the texts of a client."""
        with self.work(client, request.texts, request.n_best, request.options.get("beam_size")) as answer_with:
            found = await (
                self._translation.translate(request)
                if request.size <= SHORT
                else self.workers.translate(request, client=client.name)
            )
            answer_with(found[0].model_name if found else "", (one.text for one in found))
            self._count_control(found, client)
            return found

    def _count_control(self, found: Sequence[TranslatedText], client: Client) -> None:
        for one in found:
            self.metrics.count_control(
                one.model_name,
                client.interface,
                terms=len(one.terms),
                placeholders=one.placeholders,
                unmet=len(one.unmet),
            )

    async def alternatives(self, request: TranslationRequest, client: Client, *, count: int) -> list[Alternative]:
        """Return the alternatives after the beginning of the translation of a client's text."""
        check_short(request.texts[0], "text")
        with self.work(client, request.texts, count, request.options.get("beam_size")) as answer_with:
            hop, text = await self._translation.last_hop(request)
            options: Any = {**request.options, **hop.model.language_options(hop.pair)}
            found = await hop.translator.alternatives_async(
                text,
                target_prefix=request.target_prefix or "",
                placeholders=request.placeholders,
                count=count,
                **options,
            )
            answer_with(hop.model.name, (one.translation.text for one in found))
            return found

    async def explain(
        self,
        request: TranslationRequest,
        client: Client,
        *,
        translation: str | None,
        beam_size: int | None,
        with_beam: bool,
    ) -> dict[str, Any]:
        """Return the fields of the explanation of a translation of a client's text."""
        if not self.config.explanations:
            raise RequestError(403, "Explanations are switched off on this server.")
        texts = [*request.texts, translation or ""]
        if sum(map(len, texts)) > (most := self.config.limits.max_explained):
            raise invalid(f"Invalid request: text and translation have more than {most:,} characters", "text")
        with self.work(client, request.texts, 1, beam_size) as answer_with:
            hop, text = await self._translation.last_hop(request)
            found = await self._explainer.explain(
                hop, text, translation=translation, beam_size=beam_size, with_beam=with_beam
            )
            answer_with(hop.model.name, [found["translation"]])
            return found

    @contextmanager
    def work(
        self, client: Client, texts: Sequence[str], n_best: int = 1, beam_size: int | None = None
    ) -> Iterator[AnswerObserver]:
        """Do work for the texts of a client, within the limits and its quota.

        The block passes the name of the model, and the texts that answer.

        The work of an answer that is sent piece by piece lasts until its last piece. Raises RequestError above a limit.
        """
        self.check_texts(texts, n_best=n_best, beam_size=beam_size)
        count = sum(map(len, texts))
        charge = self.usage.charge(client.name, count)
        with self.admit(client), charge, self.metrics.observe(count, interface=client.interface) as answer_with:
            yield answer_with


def _client_name(owner: str) -> str:
    """Return the name of a client with a key, which no address equals."""
    return f"key {owner}"


async def server_of(request: Request) -> Server:
    """Return the server that a request came to. A coroutine, because FastAPI runs other functions in a thread."""
    server: Server = request.app.state.server
    return server


ServerDep = Annotated[Server, Depends(server_of)]
