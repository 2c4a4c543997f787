"""The client: one object per process, shared by its threads."""

from __future__ import annotations

import base64
import builtins
import hashlib
import json
import os
import re
import ssl
import time
import warnings
from types import TracebackType
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Type, Union
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from . import errors, retry, safetensors
from ._version import __version__
from .cache import Cache, Entry
from .request import Graph, GraphLike, Param, Request, build, check_name
from .result import Result, dtype_names
from .transport import Answer, Broken, Deadline, Pool

_SAFETENSORS = "application/vnd.safetensors"
_SHA256 = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]+):")


def _api_key() -> Optional[str]:
    path = os.environ.get("POSENC_API_KEY_FILE")
    if path:
        with open(path, encoding="utf-8") as f:
            return f.read().strip() or None
    return os.environ.get("POSENC_API_KEY") or None


def _timeout_text(seconds: float) -> str:
    return f"{min(max(seconds, 0.001), 86400.0):.3f}"


class Client:
    """A client of posencd.

    endpoint     POSENC_ENDPOINT, or http://127.0.0.1:8080
    timeout      seconds for a whole call with its retries: POSENC_TIMEOUT, or 10. The server is told, and stops too
    api_key      POSENC_API_KEY or the contents of POSENC_API_KEY_FILE; sent as a bearer token
    max_bytes    answers that are larger are refused before memory is taken for them
    cache_bytes  answers kept in memory; 0: none
    retries      False: every call is sent once
    tls          for https; None: the system's certificates

    Safe to share between threads, and to use after a fork: a child opens its own connections.
    """

    def __init__(
        self,
        endpoint: Optional[str] = None,
        *,
        timeout: Optional[float] = None,
        api_key: Optional[str] = None,
        connect_timeout: float = 2.0,
        max_bytes: int = 1 << 30,
        cache_bytes: int = 64 << 20,
        pool_size: int = 16,
        retries: bool = True,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        self.endpoint = endpoint or os.environ.get("POSENC_ENDPOINT") or "http://127.0.0.1:8080"
        self.timeout = timeout if timeout is not None else float(os.environ.get("POSENC_TIMEOUT") or 10.0)
        self.max_bytes = max_bytes
        self._key = api_key if api_key is not None else _api_key()
        self._pool = Pool(self.endpoint, size=pool_size, connect_timeout=connect_timeout, tls=tls)
        self._cache: Cache[Result] = Cache(cache_bytes)
        self._budget = retry.Budget()
        self._attempts = retry.ATTEMPTS if retries else 1
        self._pid = os.getpid()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def close(self) -> None:
        self._pool.close()
        self._cache.clear()

    # ---- encodings ----

    def encode(
        self,
        name: str,
        /,
        *,
        graph: Optional[GraphLike] = None,
        tensors: Union[None, str, Sequence[str]] = None,
        dtype: str = "float32",
        rows: Optional[Tuple[int, int]] = None,
        timeout: Optional[float] = None,
        **params: Param,
    ) -> Result:
        """Any encoding of the server, by name. None is an absent parameter.

        graph    a Graph, a mapping of its fields, or the id of a stored graph
        tensors  the outputs to fetch; None: all
        rows     (a, b): rows a .. b-1 of each output
        Lists are lists of numbers; tensors among the parameters are numpy arrays.
        """
        wanted = None if tensors is None else ([tensors] if isinstance(tensors, str) else builtins.list(tensors))
        options = {
            "tensors": wanted and [check_name("tensor", t) for t in wanted],
            "rows": None if rows is None else f"{rows[0]}:{rows[1]}",
        }
        path = f"/v1/encodings/{check_name('encoding', name)}.safetensors"
        return self._fetch(build(path, options, {**params, "dtype": dtype}, graph), timeout)

    def sinusoidal(
        self,
        embedding_dim: int,
        num_positions: Optional[int] = None,
        *,
        positions: Union[None, Sequence[float], npt.NDArray[Any]] = None,
        offset: Optional[int] = None,
        dtype: str = "float32",
        timeout: Optional[float] = None,
        **params: Param,
    ) -> Result:
        """Sine and cosine of positions; output `table` [positions, embedding_dim]."""
        given: Dict[str, Any] = {"embedding_dim": embedding_dim, "num_positions": num_positions}
        given.update(positions=positions, offset=offset, **params)
        return self.encode("sinusoidal", dtype=dtype, timeout=timeout, **given)

    def laplacian(
        self,
        edge_index: npt.ArrayLike,
        num_nodes: int,
        k: int = 8,
        *,
        edge_weight: Optional[npt.ArrayLike] = None,
        ptr: Optional[npt.ArrayLike] = None,
        directed: bool = False,
        dtype: str = "float32",
        timeout: Optional[float] = None,
        **params: Param,
    ) -> Result:
        """Eigenvectors of the graph Laplacian; outputs `eigenvectors` [num_nodes, k], `eigenvalues` and their quality."""
        graph = Graph(num_nodes, edge_index, edge_weight, directed, ptr)
        given: Dict[str, Any] = {"k": k, **params}
        return self.encode("laplacian", graph=graph, dtype=dtype, timeout=timeout, **given)

    def result(self, digest: str, *, timeout: Optional[float] = None) -> Result:
        """A result that the server still holds, by its request digest. NotFound when it does not."""
        if not re.fullmatch("[0-9a-f]{64}", digest):
            raise ValueError(f"digest: got {digest!r}, allowed: 64 hexadecimal digits")
        return self._fetch(Request("GET", f"/v1/results/{digest}.safetensors", None, None), timeout)

    # ---- words ----

    def explain(
        self,
        name: str,
        /,
        *,
        graph: Optional[GraphLike] = None,
        dtype: str = "float32",
        timeout: Optional[float] = None,
        **params: Param,
    ) -> Dict[str, Any]:
        """What encode would do, without doing it: parameters, key, digest, shapes, bytes, cost, cached."""
        path = f"/v1/encodings/{check_name('encoding', name)}.json"
        return self._words(build(path, {"explain": True}, {**params, "dtype": dtype}, graph), timeout)

    def resolve(self, config: Union[str, bytes, Mapping[str, Any]], *, timeout: Optional[float] = None) -> Dict[str, Any]:
        """What a model's positions need: the text of a HuggingFace config.json, or what it holds, to requests.

        Each of `requests` has layer_type, encoding, params (for `encode`), needs (what only the caller has), note, and
        layers where not all are meant; `defaults_used` says what the model's class filled in.
        """
        text = config if isinstance(config, (str, bytes)) else json.dumps(config)
        body = text.encode() if isinstance(text, str) else text
        return self._words(Request("POST", "/v1/resolve.json", body, "application/json"), timeout)

    def analyze(
        self,
        table: Union[str, npt.ArrayLike],
        /,
        what: Union[None, str, Sequence[str]] = None,
        *,
        graph: Optional[GraphLike] = None,
        picture: Optional[str] = None,
        timeout: Optional[float] = None,
        **params: Param,
    ) -> Union[Dict[str, Any], bytes]:
        """What a table is like: that of the encoding of this name, or an array [positions, channels].

        what     "norms", "shift", ...; None: all that applies
        picture  "png" or "svg": that, as bytes, instead of the numbers
        params   of the encoding and of the analysis (train_length, offsets, embeddings ...)
        The numbers are in the answer's `analysis`, by `what` and field; None where a field has no value.
        """
        if picture not in (None, "png", "svg"):
            raise ValueError(f"picture: got {picture!r}, allowed: png, svg or None")
        given: Dict[str, Any] = dict(params)
        if what is not None:
            given["what"] = what if isinstance(what, str) else ",".join(what)
        if isinstance(table, str):
            path = f"/v1/encodings/{check_name('encoding', table)}/analysis.{picture or 'json'}"
        else:
            path = f"/v1/analysis.{picture or 'json'}"
            given["table"] = np.asarray(table)
        request = build(path, {}, given, graph)
        if picture is None:
            return self._words(request, timeout)
        return self._ask(request, {}, Deadline(self.timeout if timeout is None else timeout)).body

    def identify(
        self, table: npt.ArrayLike, /, *, tolerance: Optional[float] = None, timeout: Optional[float] = None
    ) -> Dict[str, Any]:
        """Which encoding, convention and parameters give a table: `answer`, and `matches`, the smallest difference first.

        tolerance  largest difference, as a share of the table's largest magnitude; None: 0.006
        """
        params: Dict[str, Any] = {"table": np.asarray(table)}
        if tolerance is not None:
            params["tolerance"] = tolerance
        return self._words(build("/v1/identify", {}, params, None), timeout)

    def compare(
        self,
        table: npt.ArrayLike,
        encoding: str,
        /,
        *,
        graph: Optional[GraphLike] = None,
        timeout: Optional[float] = None,
        **params: Param,
    ) -> Dict[str, Any]:
        """A table against that encoding's: the difference, and the known `mistake` that explains it, or None.

        params  of the encoding; tensor: which of its outputs; dtype: that of the table when not given
        """
        options = {"encoding": check_name("encoding", encoding)}
        return self._words(build("/v1/compare", options, {**params, "table": np.asarray(table)}, graph), timeout)

    def list(self, *, timeout: Optional[float] = None) -> Sequence[Dict[str, Any]]:
        """The descriptor of every encoding."""
        encodings = self._words(Request("GET", "/v1/encodings", None, None), timeout).get("encodings")
        return encodings if isinstance(encodings, builtins.list) else []

    def describe(self, name: str, /, *, timeout: Optional[float] = None) -> Dict[str, Any]:
        """One descriptor, with a JSON Schema of its parameters."""
        return self._words(Request("GET", f"/v1/encodings/{check_name('encoding', name)}", None, None), timeout)

    def capabilities(self, *, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Limits in force, encodings and revisions, dtypes, formats, build. Warns when versions differ."""
        answer = self._words(Request("GET", "/v1/capabilities", None, None), timeout)
        version = str(answer.get("version", ""))
        if version and version.split(".")[:2] != __version__.split(".")[:2]:
            warnings.warn(f"posenc client {__version__}, server {version}", errors.VersionSkewWarning, stacklevel=2)
        return answer

    def _words(self, request: Request, timeout: Optional[float]) -> Dict[str, Any]:
        answer = self._ask(request, {}, Deadline(self.timeout if timeout is None else timeout))
        try:
            words = json.loads(answer.body)
        except ValueError as e:
            raise errors.IntegrityError("the answer is not JSON", status=answer.status) from e
        if not isinstance(words, dict):
            raise errors.IntegrityError("the answer is not a JSON object", status=answer.status)
        return words

    # ---- one call ----

    def _fetch(self, request: Request, timeout: Optional[float]) -> Result:
        deadline = Deadline(self.timeout if timeout is None else timeout)
        body_id = hashlib.sha256(request.body).hexdigest() if request.body is not None else ""
        key = (request.method, request.target, body_id)
        known = self._cache.get(key)
        if known is not None and known.immutable:
            return known.value.cached()
        headers = {"If-None-Match": known.etag} if known is not None else {}
        answer = self._ask(request, headers, deadline)
        if answer.status == 304 and known is not None:
            return known.value.cached()
        result = _decode(answer)
        entry = _entry(answer, result, request.method == "GET")
        if entry is not None:
            self._cache.put(key, entry)
        return result

    def _headers(self, request: Request, extra: Mapping[str, str], deadline: Deadline) -> Dict[str, str]:
        headers = {"User-Agent": f"posenc-python/{__version__}", "Request-Timeout": _timeout_text(deadline.left()), **extra}
        if request.media is not None:
            headers["Content-Type"] = request.media
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        return headers

    def _ask(self, request: Request, extra: Mapping[str, str], deadline: Deadline) -> Answer:
        """Sends until there is a good answer, an answer that no retry helps, or three attempts."""
        self._after_fork()
        self._budget.call()
        attempt = 0
        while True:
            attempt += 1
            wait: Optional[float] = None
            try:
                answer = self._pool.exchange(
                    request.method,
                    request.target,
                    self._headers(request, extra, deadline),
                    request.body,
                    deadline,
                    self.max_bytes,
                )
                if answer.status == 200:
                    _check_digest(answer)
                    return answer
                if answer.status == 304 and "If-None-Match" in extra:
                    return answer
                error, wait = _refused(answer, request.method)
            except Broken as e:
                error = errors.Unavailable(str(e), reason="TRANSPORT")
                wait = retry.backoff(attempt) if e.clean else None
            if wait is None or attempt >= self._attempts or wait >= deadline.left() or not self._budget.retry():
                raise error
            time.sleep(wait)

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._cache.reset_lock()
            self._budget.reset_lock()


def _refused(answer: Answer, method: str) -> Tuple[errors.PosencError, Optional[float]]:
    """The exception, and the wait after which the same request may succeed; None: never."""
    media = answer.header("Content-Type")
    hint = retry.hint(answer.header("Retry-After"))
    request_id = answer.header("X-Request-Id") or None
    error = errors.from_answer(answer.status, media, bytes(answer.body), request_id, hint)
    if hint is not None and hint > retry.LONGEST_HINT_S:
        return error, None
    if answer.status == 503 or (answer.status == 429 and hint is not None):
        return error, hint if hint is not None else retry.backoff(1)
    if answer.status in (502, 504) and method == "GET" and not errors.is_problem(media):  # of a proxy, not of posencd
        return error, hint if hint is not None else retry.backoff(1)
    return error, None


def _check_digest(answer: Answer) -> None:
    said = _SHA256.search(answer.header("Repr-Digest"))
    if said and base64.b64encode(hashlib.sha256(answer.body).digest()).decode() != said.group(1):
        words = "the body does not have the digest that its header says"
        raise errors.IntegrityError(words, status=answer.status, reason="REPR_DIGEST")


def _decode(answer: Answer) -> Result:
    media = answer.header("Content-Type").partition(";")[0].strip().lower()
    if media != _SAFETENSORS:
        raise errors.IntegrityError(f"the answer is {media or 'of no type'}, not {_SAFETENSORS}", status=answer.status)
    try:
        tensors, words, metadata = safetensors.load(answer.body)
        params = json.loads(metadata.get("params", "{}"))
        revision = int(metadata.get("revision", "0"))
    except ValueError as e:
        raise errors.IntegrityError(f"the answer is not safetensors: {e}", status=answer.status, reason="FORMAT") from e
    return Result(
        tensors=tensors,
        dtypes=dtype_names(words),
        encoding=metadata.get("encoding", ""),
        revision=revision,
        digest=metadata.get("digest", ""),
        params=params,
        warnings=tuple(unquote(w) for w in answer.headers.get_all("Posenc-Warning") or ()),
    )


def _entry(answer: Answer, result: Result, can_ask_again: bool) -> Optional[Entry[Result]]:
    """What to keep: answers that never change, and those that a GET with If-None-Match can confirm."""
    directives = {d.strip().lower() for d in answer.header("Cache-Control").split(",")}
    etag = answer.header("ETag")
    immutable = "immutable" in directives and "no-store" not in directives
    if "no-store" in directives or not (immutable or (etag and can_ask_again)):
        return None
    return Entry(etag, immutable, result, len(answer.body) + 1024)
