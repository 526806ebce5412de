"""The web application: all protocols, health, metrics, and what surrounds every request."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Literal

from fastapi import FastAPI, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.exceptions import HTTPException

import dragoman
from dragoman.serving.config import ServerConfig
from dragoman.serving.http.api_page import add_api_page
from dragoman.serving.http.request_log import RequestLog
from dragoman.serving.http.web_page import router as web_page_router
from dragoman.serving.protocols import deepl, deepl_glossaries, immersive_translate, libretranslate, native, openai
from dragoman.serving.server import Server, ServerDep

ROUTERS = (
    libretranslate.router,
    deepl.router,
    *deepl_glossaries.ROUTERS,
    immersive_translate.router,
    *openai.ROUTERS,
    *native.ROUTERS,
)


class Health(BaseModel):
    """State of the server."""

    status: Literal["ok"] = "ok"


def build_app(config: ServerConfig) -> FastAPI:
    """Load the models and build the application. Raises RunError or ConfigError where a model cannot be loaded."""
    server = Server(config)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        watch = asyncio.create_task(server.store.watch(config.reload_interval)) if config.reload_interval else None
        save = asyncio.create_task(server.usage.save_regularly())
        server.start()
        yield
        server.is_ready = False
        for task in (save, watch):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        await server.close()

    app = FastAPI(
        title="dragoman",
        version=dragoman.__version__,
        description="Transformer sequence models behind the interfaces that clients speak.",
        lifespan=lifespan,
        docs_url=None,  # these pages load scripts from other hosts
        redoc_url=None,
    )
    app.state.server = server
    for router in ROUTERS:
        app.include_router(router)
    app.include_router(web_page_router)
    _add_operation_routes(app)
    add_api_page(app)
    if config.cors_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(config.cors_origins), allow_methods=["*"], allow_headers=["*"]
        )
    app.add_middleware(RequestLog)
    app.add_exception_handler(HTTPException, _render_http_error)
    return app


def _add_operation_routes(app: FastAPI) -> None:
    @app.get("/health", tags=["Operation"], response_model=Health)
    async def health() -> Health:
        """Answer as long as the server runs."""
        return Health()

    @app.get("/ready", tags=["Operation"], response_model=Health, responses={503: {}})
    async def ready(server: ServerDep) -> Response:
        """Answer with status 200 while requests are accepted, and with 503 otherwise."""
        return JSONResponse({"status": "ok" if server.is_ready else "draining"}, 200 if server.is_ready else 503)

    @app.get("/metrics", tags=["Operation"], response_class=PlainTextResponse)
    async def metrics(server: ServerDep) -> Response:
        """Return the measurements in the text format of Prometheus."""
        return Response(server.metrics.render(), media_type=CONTENT_TYPE_LATEST)


async def _render_http_error(request: Request, error: Exception) -> Response:
    """Answer a request without a route, in the shape of the protocol to which its address belongs."""
    assert isinstance(error, HTTPException)
    router = next((one for one in ROUTERS if one.is_addressed(request.url.path)), libretranslate.router)
    return router.render_missing(request, error)
