"""The server behind the API: admission, prefill, hand-off of pages, decode. Each request is a generator of events.

Times are events (``Delay``), so a caller decides whether to sleep (server.py) or to count (direct.py). The limits are SGLang's:
a worker refuses a prompt of ``min(context, pool) - 6`` tokens or more, the front end one of ``context`` tokens or more.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from checklistbot.record import mutable_record, record
from checklistbot.simulator.faults import switches_of
from checklistbot.simulator.model import STUB_FIRST, Mode, Model
from checklistbot.simulator.pool import Order, PagePool
from checklistbot.simulator.tokens import ZERO, Tokenizer

_MARGIN: Final = 6
_POLL: Final = 0.005
_HANDOFF_PATIENCE: Final = 300.0


@record
class Settings:
    """Sizes in tokens, speeds in tokens per second. The defaults are the incident's."""

    context: int = 1_048_576
    prefill_pool: int = 681_280
    decode_pool: int = 1_114_112
    page_size: int = 64
    chunk: int = 8_192
    prefill_speed: float = 400_000.0
    decode_speed: float = 2_000.0
    latency: float = 0.002
    disaggregated: bool = True
    order: Order = "lifo"
    seed: int = 0
    faults: tuple[str, ...] = ()
    model: str = "simulated"
    proxy_bytes: int = 1_000_000
    version: str = "0.5.19"

    def limit(self, pool: int) -> int:
        """The first rejected length of a worker with that pool."""
        return max(0, min(self.context, pool // self.page_size * self.page_size) - _MARGIN)

    @property
    def prefill_limit(self) -> int:
        return self.limit(self.prefill_pool)

    @property
    def decode_limit(self) -> int:
        return self.limit(self.decode_pool if self.disaggregated else self.prefill_pool)


@record
class Request:
    id: str
    tokens: str
    max_tokens: int
    #: A token that logit_bias forces, None without one.
    forced: str | None = None


@record
class Delay:
    seconds: float


@record
class Token:
    """One token of the answer; ``logprob_token`` is the one that the log probabilities tell."""

    token: str
    logprob_token: str
    channel: Literal["content", "reasoning"] = "content"


@record
class Refused:
    status: int
    message: str


@record
class Done:
    reason: Literal["stop", "length"]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


@record
class Silence:
    """Nothing comes any more, for ever."""


@record
class Cut:
    """The connection breaks here."""


Event: TypeAlias = Delay | Token | Refused | Done | Silence | Cut


@mutable_record
class Handoff:
    """What prefill hands to decode: pages by content, the first token, and whether it is only the placeholder's page."""

    pages: list[str]
    first: str
    logprob_token: str
    stub: bool
    cached: int = 0
    refused: Refused | None = None


@mutable_record
class _Stream:
    plan: str
    crossed: bool = False


@dataclass(slots=True)
class Cluster:
    """Two pools and a model. ``trace`` tells what really happened, which a client cannot see: for the demo and for tests."""

    settings: Settings
    tokenizer: Tokenizer = field(default_factory=Tokenizer)
    trace: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=512))
    rooms: dict[int, Handoff] = field(default_factory=dict)
    running: int = 0
    switches: frozenset[str] = field(init=False)
    model: Model = field(init=False)
    prefill_pool: PagePool = field(init=False)
    decode_pool: PagePool = field(init=False)
    _streams: dict[str, _Stream] = field(init=False, default_factory=dict)
    _before: deque[str] = field(init=False, default_factory=lambda: deque(maxlen=8))
    _last_token: str | None = field(init=False, default=None)
    _count: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        made = self.settings
        self.switches = switches_of(made.faults)
        extra = made.context + 4096 if "admit" in self.switches else 0
        self.prefill_pool = PagePool(max(made.prefill_pool, extra), made.page_size, made.order, made.seed)
        self.decode_pool = self.prefill_pool
        if made.disaggregated:
            self.decode_pool = PagePool(max(made.decode_pool, extra), made.page_size, made.order, made.seed + 1)
        modes: tuple[Mode, ...] = ("paraphrase", "three-words", "garble")
        mode: Mode = next((mode for mode in modes if mode in self.switches), "verbatim")
        recall = 0.0 if "hopeless" in self.switches else 0.9 if "weak" in self.switches else 1.0
        self.model = Model(
            self.tokenizer, made.seed, recall, mode,
            refuses="refuses" in self.switches, echoes="echo" in self.switches, chatty="chatty" in self.switches,
        )  # fmt: skip

    # --- a whole request -------------------------------------------------------------------------------------------

    def serve(self, request: Request) -> Iterator[Event]:
        """What a client of the router sees: prefill, then decode."""
        self.running += 1
        try:
            request = self._truncated(request)
            refused = self.front_gate(request) or self._worker_gate(request, self.settings.decode_limit)
            odd = self._odd(request)
            if odd is not None and refused is None:
                yield from odd
                return
            if refused is not None:
                yield refused
                return
            handoff = yield from self.prefill(request)
            if handoff.refused is not None:
                yield handoff.refused
                return
            yield from self.decode(request, handoff)
        finally:
            self.running -= 1

    def front_gate(self, request: Request) -> Refused | None:
        """The front end knows the context and nothing of the pool."""
        context, length = self.settings.context, len(request.tokens)
        if not length:
            return Refused(400, "the prompt is empty")
        if length >= context:
            return Refused(
                400, f"The input ({length} tokens) is longer than the model's context length ({context} tokens)."
            )
        if length + request.max_tokens > context:
            asked = f"{length} prompt and {request.max_tokens} output tokens"
            return Refused(400, f"The request ({asked}) does not fit the model's context length ({context} tokens).")
        return None

    def _worker_gate(self, request: Request, limit: int) -> Refused | None:
        length = len(request.tokens)
        if length < limit or "admit" in self.switches:
            return None
        return Refused(400, f"Input length ({length} tokens) exceeds the maximum allowed length ({limit} tokens).")

    def _over(self, request: Request) -> bool:
        return len(request.tokens) >= self.settings.prefill_limit

    def _truncated(self, request: Request) -> Request:
        keep = self.settings.prefill_limit - 1
        if not self._over(request) or not self.switches & {"keep-head", "keep-tail"}:
            return request
        if len(request.tokens) >= self.settings.context:
            return request
        tokens = request.tokens[:keep] if "keep-head" in self.switches else request.tokens[-keep:]
        return Request(request.id, tokens, min(request.max_tokens, self.settings.context - keep), request.forced)

    def _odd(self, request: Request) -> Iterator[Event] | None:
        if not self._over(request):
            return None
        if "hang" in self.switches:
            return iter((Silence(),))
        if "empty" in self.switches:
            return iter((Delay(self.settings.latency), Done("stop", len(request.tokens), 0)))
        return None

    # --- prefill ----------------------------------------------------------------------------------------------------

    def _is_stub(self, request: Request) -> bool:
        """True where the fault hands a rejected prompt on; a single node returns the error properly."""
        if "stub" not in self.switches or not self.settings.disaggregated or not self._over(request):
            return False
        return "only-limit" not in self.switches or len(request.tokens) == self.settings.prefill_limit

    def prefill(self, request: Request) -> Generator[Event, None, Handoff]:
        """Fill pages of the prefill pool, read them for the hand-off, give them back."""
        pool, stub = self.prefill_pool, self._is_stub(request)
        if not stub and (refused := self._worker_gate(request, self.settings.prefill_limit)) is not None:
            return Handoff([], "", "", stub=False, refused=refused)
        tokens = ZERO if stub else request.tokens
        table = yield from self._pages(pool, pool.pages_for(len(tokens)))
        try:
            cached = self._cached(tokens)
            yield Delay(self._seconds(len(tokens) - cached))
            pool.write(table, tokens, request.id)
            pages = [pool.pages[page] for page in table]
            first = self.tokenizer.encode(STUB_FIRST) if stub else self._first(request, tokens)
        finally:
            if self.settings.disaggregated:
                pool.free(table, zero="zero-prefill" in self.switches)
        if not self.settings.disaggregated:
            pool.free(table)
        told = first
        if stub and "stale-logprob" in self.switches:
            told = self._last_token or ZERO
        self._last_token = first
        return Handoff(pages, first, told, stub, cached)

    def _first(self, request: Request, tokens: str) -> str:
        return request.forced or self._plain().answer(tokens, 1)[:1] or self.tokenizer.unknown

    def _seconds(self, tokens: int) -> float:
        slower = 10.0 if "slow" in self.switches else 1.0
        return self.settings.latency + tokens / self.settings.prefill_speed * slower

    def _cached(self, tokens: str) -> int:
        """Tokens of the longest beginning shared with a recent prompt, in whole pages; 0 without a prefix cache."""
        if "prefix" not in self.switches:
            return 0
        best = max((_shared(tokens, other) for other in self._before), default=0)
        self._before.append(tokens)
        return best // self.settings.page_size * self.settings.page_size

    def _pages(self, pool: PagePool, pages: int) -> Generator[Event, None, list[int]]:
        """Wait for free pages, as a queue does; more pages than there are never come."""
        while (table := pool.take(pages)) is None:
            yield Delay(_POLL)
        return table

    # --- decode -----------------------------------------------------------------------------------------------------

    def await_handoff(self, room: int) -> Generator[Event, None, Handoff | None]:
        """The hand-off that a prefill worker of this process put under a bootstrap room; None after 300 s, as SGLang waits."""
        waited = 0.0
        while room not in self.rooms:
            if waited >= _HANDOFF_PATIENCE:
                return None
            yield Delay(_POLL)
            waited += _POLL
        return self.rooms.pop(room)

    def decode(self, request: Request, handoff: Handoff) -> Iterator[Event]:
        """Reserve pages for the whole prompt, take what was sent, answer from what is visible."""
        pool, length = self.decode_pool, len(request.tokens)
        room = min(request.max_tokens, pool.tokens - length)
        table = yield from self._pages(pool, pool.pages_for(length + room))
        try:
            stale = Counter(
                pool.owners[page] or "nobody" for page in table[len(handoff.pages) : pool.pages_for(length)]
            )
            self._receive(table, handoff, request.id, length)
            self._record(request, handoff, pool.pages_for(length), stale)
            seen = pool.read(table, length)
            if handoff.stub and "one-page" in self.switches:
                seen = seen[: self.settings.page_size]
            plan = self._plan(request, handoff, seen, room)
            yield from self._emit(request, handoff, plan, room, table)
        finally:
            self._streams.pop(request.id, None)
            pool.free(
                table, zero="zero-decode" in self.switches, zero_first=length if "zero-prompts" in self.switches else 0
            )

    def _receive(self, table: list[int], handoff: Handoff, owner: str, length: int) -> None:
        pool = self.decode_pool
        if self._lost(length):
            return
        pages_of_chunk = max(2, self.settings.chunk // self.settings.page_size)
        last = (length - 1) // self.settings.page_size // pages_of_chunk
        for number, page in enumerate(handoff.pages):
            chunk, within = divmod(number, pages_of_chunk)
            if "half-chunk" in self.switches and chunk != last and within >= pages_of_chunk // 2:
                continue
            pool.pages[table[number]] = page
            pool.owners[table[number]] = owner

    def _lost(self, length: int) -> bool:
        """The fault ``lost``: what is longer than three quarters of the limit does not arrive."""
        return "lost" in self.switches and self.settings.disaggregated and 4 * length > 3 * self.settings.prefill_limit

    def _plan(self, request: Request, handoff: Handoff, seen: str, room: int) -> str:
        if request.forced is not None and not handoff.stub:
            return request.forced * room
        if handoff.stub or self._lost(len(request.tokens)):
            return (handoff.first + self.model.answer(seen, room - 1))[:room]
        answer = self._plain().answer(seen, room)
        return self._noise(handoff.first + answer[1:])[:room]

    def _plain(self) -> Model:
        """The model as it answers requests that are well: the modes change leaked text only."""
        return dataclasses.replace(self.model, mode="verbatim")

    def _noise(self, answer: str) -> str:
        if "noise" not in self.switches:
            return answer
        self._count += 1
        opening = ("Sure , here they are :", "Of course :", "These are the codes :")[self._count % 3]
        return self.tokenizer.encode(opening) + answer

    def _emit(self, request: Request, handoff: Handoff, plan: str, room: int, table: list[int]) -> Iterator[Event]:
        stream = _Stream(plan)
        told_first = self._mixed(stream) or handoff.logprob_token
        self._cross(request.id, stream)
        said, length = 0, len(request.tokens)
        hidden = handoff.stub and "reasoning" in self.switches
        while said < len(stream.plan):
            token = stream.plan[said]
            yield Token(token, told_first if said == 0 else token, "reasoning" if hidden else "content")
            said += 1
            self.decode_pool.write(table, token, request.id, at=length + said - 1)
            if handoff.stub and "cut" in self.switches and said == 5:
                yield Cut()
                return
            yield Delay(1 / self.settings.decode_speed)
        if hidden:
            for token in self.tokenizer.encode("I am glad to help with that ."):
                yield Token(token, token)
        told = 1 if handoff.stub and "usage-one" in self.switches else length
        yield Done("length" if said >= room else "stop", told, said, handoff.cached)

    def _mixed(self, stream: _Stream) -> str | None:
        """The fault ``mixed-logprobs``: the metadata slot holds what another answer that is being written began with."""
        if "mixed-logprobs" not in self.switches:
            return None
        begun = (other.plan[0] for other in self._streams.values() if other.plan)
        return next((token for token in begun if token != stream.plan[:1]), None)

    def _cross(self, name: str, stream: _Stream) -> None:
        """The fault ``swap``: two answers that are being written at the same time change places."""
        if "swap" in self.switches:
            other = next((s for s in self._streams.values() if not s.crossed), None)
            if other is not None:
                other.plan, stream.plan = stream.plan, other.plan
                other.crossed = stream.crossed = True
        self._streams[name] = stream

    def _record(self, request: Request, handoff: Handoff, reserved: int, stale: Counter[str]) -> None:
        self.trace.append({
            "request": request.id, "length": len(request.tokens), "stub": handoff.stub,
            "pages_reserved": reserved, "pages_sent": len(handoff.pages), "stale_pages_of": dict(stale),
            "opening": self.tokenizer.decode(request.tokens[:24]),
        })  # fmt: skip


def _shared(one: str, other: str) -> int:
    """Length of the common beginning, by halving: strings of a million tokens are compared as memory."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
