"""What every provider shares: the question, the answer, the ways to fail, and where a key may go.

A provider gets one question and returns one text. It has no tools and no memory. Keys come from fixed variables of the
environment and go to the provider's own hosts; any other base URL takes ``CHECKLISTBOT_LLM_KEY`` only, unless URL and key stand
in the environment together (operations-and-attacks 26).
"""

from __future__ import annotations

import ipaddress
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from checklistbot.lazy import pattern
from checklistbot.model import UsageError
from checklistbot.record import record
from checklistbot.retry import Again, Clock, Deadline, retry_after_seconds

if TYPE_CHECKING:
    import httpx2

    from checklistbot.config import LlmSettings

#: How a question can end without an answer. Each has a sentence of ours in both languages (``SENTENCES``).
Reason = Literal[
    "no-key",
    "bad-url",
    "bad-model",
    "no-sdk",
    "budget",
    "unauthorised",
    "not-found",
    "rate-limited",
    "overloaded",
    "server-error",
    "bad-request",
    "timed-out",
    "no-connection",
    "tls",
    "redirected",
    "too-large",
    "refused",
    "filtered",
    "truncated",
    "empty",
    "bad-response",
    "not-json",
    "wrong-schema",
]
SENTENCES: Final[dict[Reason, tuple[str, str]]] = {
    "budget": (
        "asking would take more tokens than this run may use (llm.budget_tokens)",
        "물어보려면 이번 실행에 허용된 토큰(llm.budget_tokens)보다 많이 필요합니다",
    ),
    "no-key": (
        "no key for this provider is set in the environment; set OPENAI_API_KEY, ANTHROPIC_API_KEY or CHECKLISTBOT_LLM_KEY",
        "이 제공자의 키가 환경 변수에 없습니다. OPENAI_API_KEY, ANTHROPIC_API_KEY, CHECKLISTBOT_LLM_KEY 중 하나를 설정하세요",
    ),
    "bad-url": (
        "the base URL is not allowed: https, or http on loopback, without credentials or query",
        "허용되지 않는 base URL입니다. https이거나 루프백 http여야 하고 자격 증명과 쿼리가 없어야 합니다",
    ),
    "bad-model": ("the model name is not a model id", "모델 이름이 모델 ID 형식이 아닙니다"),
    "no-sdk": ("the provider's SDK is not installed", "제공자의 SDK가 설치되어 있지 않습니다"),
    "unauthorised": ("the provider refused the key", "제공자가 키를 거부했습니다"),
    "not-found": (
        "the provider does not know this model or address",
        "제공자가 이 모델이나 주소를 알지 못합니다",
    ),
    "rate-limited": ("the provider's rate limit is reached", "제공자의 요청 한도를 넘었습니다"),
    "overloaded": ("the provider is overloaded", "제공자가 과부하 상태입니다"),
    "server-error": ("the provider failed (HTTP 5xx)", "제공자 쪽에서 오류가 났습니다 (HTTP 5xx)"),
    "bad-request": ("the provider refused the request as malformed", "제공자가 요청 형식을 거부했습니다"),
    "timed-out": ("the answer did not come in time", "제한 시간 안에 응답이 오지 않았습니다"),
    "no-connection": ("the provider could not be reached", "제공자에 연결할 수 없습니다"),
    "tls": ("the provider's TLS certificate could not be verified", "제공자의 TLS 인증서를 확인할 수 없습니다"),
    "redirected": (
        "the provider answered with a redirect, which is not followed",
        "제공자가 리디렉션으로 응답했고, 리디렉션은 따라가지 않습니다",
    ),
    "too-large": ("the answer is larger than 256 KiB", "응답이 256 KiB보다 큽니다"),
    "refused": (
        "the model refused to answer; try another model (--model)",
        "모델이 응답을 거부했습니다. --model로 다른 모델을 지정해 보세요",
    ),
    "filtered": ("the provider's content filter stopped the answer", "제공자의 콘텐츠 필터가 응답을 막았습니다"),
    "truncated": ("the answer was cut off before its end", "응답이 끝나기 전에 잘렸습니다"),
    "empty": ("the answer is empty", "응답이 비어 있습니다"),
    "bad-response": ("the server's answer is not what its API describes", "서버의 응답이 API 명세와 다릅니다"),
    "not-json": (
        "the answer is not JSON, also after one correction",
        "한 번 고쳐 달라고 한 뒤에도 응답이 JSON이 아닙니다",
    ),
    "wrong-schema": (
        "the answer does not follow the schema, also after one correction",
        "한 번 고쳐 달라고 한 뒤에도 응답이 스키마에 맞지 않습니다",
    ),
}
#: What may pass if the same question is asked again.
TRANSIENT: Final[frozenset[Reason]] = frozenset(
    ("rate-limited", "overloaded", "server-error", "timed-out", "no-connection")
)
MAX_RESPONSE_BYTES: Final = 1_048_576
MAX_ANSWER_BYTES: Final = 262_144


def sentence(reason: Reason, language: str) -> str:
    """Our own words for a failure; never the provider's."""
    english, korean = SENTENCES[reason]
    return korean if language == "ko" else english


@record
class Message:
    role: Literal["user", "assistant"]
    text: str


@record
class Question:
    """One request. ``schema`` is a JSON Schema without range keywords; ``seconds`` bounds the whole exchange."""

    messages: tuple[Message, ...]
    schema: Mapping[str, Any]
    max_output_tokens: int
    seconds: float
    effort: str | None = None


@record
class Answer:
    """The text as it came, and what it cost; ``model`` is what the server says it is."""

    text: str
    model: str | None
    input_tokens: int | None
    output_tokens: int | None


class Failed(Exception):
    """No answer. Carries a class of ours and, for the retry, the server's Retry-After in seconds; no text of the provider."""

    def __init__(self, reason: Reason, after: float | None = None, usage: tuple[int, int] | None = None) -> None:
        super().__init__(reason)
        self.reason: Reason = reason
        self.after = after
        self.usage = usage


@record
class Connection:
    """Where the question goes and with which key; ``own`` is True for the provider's own hosts."""

    base_url: str
    key: str
    model: str | None
    own: bool


@record
class Provider:
    """One provider, as ``llm/NAME.py`` defines it in ``PROVIDER``.

    ``key_name`` and ``base_url_name`` are the fixed variables of the environment; ``hosts`` the provider's own (a leading dot
    also takes sub-domains). ``ask`` raises Failed.
    """

    name: Literal["openai", "anthropic"]
    key_name: str
    base_url_name: str | None
    default_url: str
    hosts: tuple[str, ...]
    ask: Callable[[Question, Connection, Clock], Answer]


# --- where a key may go ------------------------------------------------------------------------------------------------

#: No user info, query, fragment, backslash or white space: what this matches, every URL parser reads alike.
_URL = pattern(
    r"(https?)://([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::(\d{1,5}))?((?:/[A-Za-z0-9._~-]*)*)", re.ASCII
)
_MODEL = pattern(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}", re.ASCII)
#: Stands where a server without authentication wants some key.
NO_KEY: Final = "none"


def _loopback(host: str) -> bool:
    host = host.strip("[]").lower()
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host(url: str) -> str:
    """The host of an allowed URL. Raises Failed for any other."""
    match = _URL.fullmatch(url)
    if not match or (match[1] == "http" and not _loopback(match[2])) or int(match[3] or 0) > 65_535:
        raise Failed("bad-url")
    return match[2].lower()


def is_loopback(url: str) -> bool:
    """True if the URL's host is this machine."""
    return _loopback(urlsplit(url).hostname or "")


def foreign(url: str, provider: Provider) -> bool:
    """True if the URL is not one of the provider's own hosts over https (also if it is no allowed URL at all)."""
    try:
        host = _host(url)
    except Failed:
        return True
    own = any(host == name.lstrip(".") or (name.startswith(".") and host.endswith(name)) for name in provider.hosts)
    return not own or not url.startswith("https://")


def connect(provider: Provider, settings: LlmSettings, model: str | None, environ: Mapping[str, str]) -> Connection:
    """Decides URL, key and model. Raises Failed with ``bad-url``, ``bad-model`` or ``no-key``."""
    from_environment = environ.get(provider.base_url_name) if provider.base_url_name else None
    url = (settings.base_url or from_environment or provider.default_url).rstrip("/")
    _host(url)
    model = model or settings.model
    if model is not None and not _MODEL.fullmatch(model):
        raise Failed("bad-model")
    own = not foreign(url, provider)
    together = bool(from_environment) and url == (from_environment or "").rstrip("/")
    key = (environ.get(provider.key_name) or "") if own else (environ.get("CHECKLISTBOT_LLM_KEY") or "")
    if not key and together:
        key = environ.get(provider.key_name) or ""
    if not key and own:
        raise Failed("no-key")
    return Connection(url, key or NO_KEY, model, own)


# --- the wire ----------------------------------------------------------------------------------------------------------


@contextmanager
def http_client(connection: Connection, seconds: float) -> Iterator[httpx2.Client]:
    """The HTTP client that an SDK gets: no redirects, no netrc, proxies from the process environment only (none for loopback),
    at most MAX_RESPONSE_BYTES and ``seconds`` for the whole body."""
    import httpx2

    for name in ("openai", "anthropic", "httpx2", "httpcore2"):
        # An SDK that logs at its own wish would put the prompt into a build log.
        logging.getLogger(name).setLevel(logging.WARNING)
    end = time.monotonic() + seconds

    class Bounded(httpx2.SyncByteStream):
        """A response body that is cut off: httpx2's time-out starts again with every byte."""

        def __init__(self, inner: Any, request: httpx2.Request) -> None:
            self._inner, self._request = inner, request

        def __iter__(self) -> Iterator[bytes]:
            read = 0
            for chunk in self._inner:
                read += len(chunk)
                if read > MAX_RESPONSE_BYTES:
                    raise TooLarge
                if time.monotonic() > end:
                    raise httpx2.ReadTimeout("whole answer", request=self._request)
                yield chunk

        def close(self) -> None:
            self._inner.close()

    def bound(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise TooLarge
        response.stream = Bounded(response.stream, response.request)

    client = httpx2.Client(
        follow_redirects=False,
        trust_env=not is_loopback(connection.base_url),
        timeout=httpx2.Timeout(seconds, connect=min(10.0, seconds)),
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [bound]},
    )
    with client:
        yield client


class TooLarge(Exception):
    """The response body is larger than an answer may be, or packed although nobody asked for that."""


def classify(error: Exception, clock: Clock) -> Failed:
    """An SDK's exception as one of our classes. Both SDKs name theirs alike."""
    if isinstance(error, Failed):
        return error
    names = {cls.__name__ for cls in type(error).__mro__}
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and not isinstance(status, bool):
        headers = getattr(getattr(error, "response", None), "headers", {})
        return Failed(_by_status(status), retry_after_seconds(headers.get("retry-after"), clock))
    chain = _chain(error)
    if any(isinstance(part, TooLarge) for part in chain):
        return Failed("too-large")
    if "APITimeoutError" in names or any("Timeout" in type(part).__name__ for part in chain):
        return Failed("timed-out")
    if any("CERTIFICATE_VERIFY_FAILED" in str(part) or type(part).__name__.startswith("SSL") for part in chain):
        return Failed("tls")
    if "APIConnectionError" in names:
        return Failed("no-connection")
    # The SDKs hand out what a server sends without looking at it, so a strange body shows as any error of these kinds.
    if isinstance(error, (ValueError, TypeError, LookupError, AttributeError)) or "APIResponseValidationError" in names:
        return Failed("bad-response")
    raise error


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _by_status(status: int) -> Reason:
    if 300 <= status < 400:
        return "redirected"
    if status in (401, 403):
        return "unauthorised"
    if status == 404:
        return "not-found"
    if status == 408:
        return "timed-out"
    if status == 429:
        return "rate-limited"
    if status in (503, 529):
        return "overloaded"
    return "server-error" if status >= 500 else "bad-request"


def again(error: Exception) -> Again | None:
    """For ``retry.call``: which failures may pass."""
    return Again(error.after) if isinstance(error, Failed) and error.reason in TRANSIENT else None


def seconds_left(deadline: Deadline, settings: LlmSettings) -> float:
    """What one exchange may take. Raises Failed when the run's deadline is used up."""
    left = min(float(settings.timeout_s), deadline.left())
    if left <= 0:
        raise Failed("timed-out")
    return left


def known_provider(name: str) -> None:
    """Raises UsageError for a provider that nobody knows."""
    if name not in ("auto", "openai", "anthropic", "builtin"):
        raise UsageError("--provider takes auto, openai, anthropic or builtin")
