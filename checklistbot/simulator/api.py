"""The OpenAI API (and what SGLang adds to it) over a ``Cluster``: bytes in, timed bytes out. No sockets here."""

from __future__ import annotations

import itertools
import json
from collections.abc import Generator, Iterator, Mapping
from dataclasses import field
from typing import Any, Final, Literal

from checklistbot.record import mutable_record
from checklistbot.simulator.engine import Cluster, Cut, Delay, Done, Event, Handoff, Refused, Request, Silence, Token
from checklistbot.simulator.tokens import ZERO

MAX_BODY: Final = 64 << 20
Face = Literal["router", "prefill", "decode"]
_CREATED: Final = 1_790_000_000


@mutable_record
class Served:
    """An answer: ``chunks`` are (seconds since the one before, bytes). Empty bytes are mere waiting, None breaks the connection,
    infinite seconds mean that nothing comes any more. ``status`` and ``content_type`` hold once the first bytes are there."""

    status: int
    content_type: str
    chunks: Iterator[tuple[float, bytes | None]]


class BadRequest(Exception):
    pass


@mutable_record
class App:
    """One HTTP face of the cluster: the router (or a unified server), or one of its workers behind another router."""

    cluster: Cluster
    face: Face = "router"
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _posts: int = 0

    def handle(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Served:
        path = path.partition("?")[0].rstrip("/") or "/"
        if method == "GET":
            return self._get(path)
        if method != "POST":
            return _json(405, {"error": {"message": "GET and POST only"}})
        return self._post(path, body)

    # --- questions about the server -----------------------------------------------------------------------------------

    def _get(self, path: str) -> Served:
        made = self.cluster.settings
        if path in ("/health", "/ping", "/ready", "/health_generate"):
            return Served(200, "text/plain", iter(((0.0, b"ok\n"),)))
        if path == "/v1/models":
            card = {"id": made.model, "object": "model", "owned_by": "sglang", "max_model_len": made.context}
            return _json(200, {"object": "list", "data": [card]})
        if path in ("/server_info", "/get_server_info"):
            return _json(200, self._server_info())
        if path in ("/model_info", "/get_model_info"):
            return _json(200, {"model_path": made.model, "is_generation": True, "served_model_name": made.model})
        if path == "/metrics":
            return Served(200, "text/plain; version=0.0.4", iter(((0.0, self._metrics().encode()),)))
        if path == "/simulator/trace":
            return _json(200, {"trace": list(self.cluster.trace)})
        return _json(404, {"error": {"message": "there is no such path"}})

    def _server_info(self) -> dict[str, Any]:
        made = self.cluster.settings
        if not made.disaggregated:
            return self._worker_info("null", made.prefill_pool)
        prefill, decode = (
            self._worker_info("prefill", made.prefill_pool),
            self._worker_info("decode", made.decode_pool),
        )
        if self.face != "router":
            return prefill if self.face == "prefill" else decode
        return {"prefill": [prefill], "decode": [decode]}

    def _worker_info(self, role: str, pool: int) -> dict[str, Any]:
        made = self.cluster.settings
        return {
            "model_path": made.model, "served_model_name": made.model, "context_length": made.context,
            "disaggregation_mode": role, "page_size": made.page_size, "chunked_prefill_size": made.chunk,
            "max_total_num_tokens": pool // made.page_size * made.page_size, "max_req_input_len": made.limit(pool),
            "version": made.version, "status": "ready",
        }  # fmt: skip

    def _metrics(self) -> str:
        made, cluster = self.cluster.settings, self.cluster
        role = {"router": "prefill" if made.disaggregated else "unified"}.get(self.face, self.face)
        label = f'{{model_name="{made.model}",engine_type="{role}"}}'
        pool = cluster.decode_pool if self.face == "decode" else cluster.prefill_pool
        values = {
            "max_total_num_tokens": (made.decode_pool if self.face == "decode" else made.prefill_pool),
            "context_len": made.context, "page_size": made.page_size, "num_running_reqs": cluster.running,
            "num_queue_reqs": 0, "num_used_tokens": pool.used,
        }  # fmt: skip
        return "".join(f"# TYPE sglang:{name} gauge\nsglang:{name}{label} {value}\n" for name, value in values.items())

    # --- requests -----------------------------------------------------------------------------------------------------

    def _post(self, path: str, body: bytes) -> Served:
        switches = self.cluster.switches
        if "proxy" in switches and len(body) > self.cluster.settings.proxy_bytes:
            return Served(413, "text/html", iter(((0.0, b"<html><h1>413 Request Entity Too Large</h1></html>"),)))
        try:
            data = json.loads(body)
            if not isinstance(data, dict):
                raise BadRequest("the body must be a JSON object")
            if path in ("/tokenize", "/v1/tokenize"):
                return self._tokenize(data)
            if path not in ("/v1/completions", "/v1/chat/completions"):
                return _json(404, {"error": {"message": "there is no such path"}})
            self._posts += 1
            if "limit-rate" in switches and self._posts % 3 == 0:
                return _json(429, {"error": {"message": "too many requests", "type": "rate_limit"}})
            return self._complete(data, chat="chat" in path)
        except (ValueError, BadRequest, RecursionError) as error:
            text = str(error) if isinstance(error, BadRequest) else "the body is not what the API takes"
            return _json(400, {"error": {"message": text, "type": "BadRequestError", "code": 400}})

    def _tokenize(self, data: dict[str, Any]) -> Served:
        tokens = self._prompt(data, chat="messages" in data)
        off = 1 if "tokenize-off" in self.cluster.switches else 0
        ids = [ord(token) for token in tokens]
        return _json(
            200, {"tokens": ids[off:], "count": len(ids) - off, "max_model_len": self.cluster.settings.context}
        )

    def _prompt(self, data: dict[str, Any], *, chat: bool) -> str:
        encode = self.cluster.tokenizer.encode
        if chat:
            return encode("begin user :") + encode(_messages(data)) + encode("end assistant :")
        prompt = data.get("prompt", data.get("content"))
        if isinstance(prompt, str):
            return encode(prompt)
        if (
            isinstance(prompt, list)
            and prompt
            and all(type(number) is int and 0 <= number < 0x110000 for number in prompt)
        ):
            return self.cluster.tokenizer.from_ids(prompt)
        raise BadRequest("prompt must be a string or a list of token ids")

    def _complete(self, data: dict[str, Any], *, chat: bool) -> Served:
        form = _Form(data, chat, self.cluster)
        request = Request(f"r{next(self._ids)}", self._prompt(data, chat=chat), form.max_tokens, form.forced)
        form.id = f"{'chatcmpl' if chat else 'cmpl'}-{request.id}"
        data.clear()  # A prompt of megabytes is not kept while it is answered.
        events = self._events(request, form.room)
        first = next(events, None)
        if isinstance(first, Refused):
            body = {"message": first.message, "type": "BadRequestError", "param": None, "code": first.status}
            return _json(first.status, {"object": "error", **body, "error": body})
        chunks = itertools.chain((first,) if first is not None else (), events)
        served = Served(200, "text/event-stream" if form.stream else "application/json", iter(()))
        served.chunks = form.streamed(chunks, served) if form.stream else form.whole(chunks, served)
        return served

    def _events(self, request: Request, room: int | None) -> Iterator[Event]:
        if self.face == "router" or room is None:
            return self.cluster.serve(request)
        return self._prefill_worker(request, room) if self.face == "prefill" else self._decode_worker(request, room)

    def _prefill_worker(self, request: Request, room: int) -> Iterator[Event]:
        """Behind another router: the pages go to the room, the reply holds the first token only. On a placeholder the reply's
        own usage says 1, which is the one honest number in the incident, and no router looks at it."""
        refused = self.cluster.front_gate(request)
        handoff = Handoff([], "", "", stub=False, refused=refused)
        if refused is None:
            handoff = yield from self.cluster.prefill(request)
        self.cluster.rooms[room] = handoff
        if handoff.refused is not None:
            yield handoff.refused
            return
        yield Token(handoff.first or ZERO, handoff.logprob_token)
        yield Done("length", 1 if handoff.stub else len(request.tokens), 1, handoff.cached)

    def _decode_worker(self, request: Request, room: int) -> Iterator[Event]:
        refused = self.cluster.front_gate(request)
        if refused is not None:
            yield refused
            return
        handoff = yield from self.cluster.await_handoff(room)
        if handoff is None:
            yield Refused(500, "no KV cache arrived in time")
        elif handoff.refused is not None:
            yield handoff.refused
        else:
            yield from self.cluster.decode(request, handoff)


def _messages(data: dict[str, Any]) -> str:
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages must be a list")
    return " ".join(_content(message) for message in messages)


def _content(message: Any) -> str:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    raise BadRequest("each message needs a content")


class _Form:
    """What a request asks of the answer's form, and the answer in that form."""

    def __init__(self, data: dict[str, Any], chat: bool, cluster: Cluster) -> None:
        self.chat = chat
        self.cluster = cluster
        self.stream = data.get("stream") is True
        options = data.get("stream_options")
        self.with_usage = isinstance(options, dict) and options.get("include_usage") is True
        self.logprobs = data.get("logprobs") not in (None, False)
        asked = data.get("max_completion_tokens", data.get("max_tokens"))
        self.max_tokens = asked if type(asked) is int else 16 if not chat else 256
        if self.max_tokens < 1:
            raise BadRequest("max_tokens must be at least 1")
        self.forced = self._bias(data.get("logit_bias"))
        room = data.get("bootstrap_room")
        self.room = room if type(room) is int else None
        self.id = ""

    def _bias(self, bias: Any) -> str | None:
        """The token that logit_bias forces: the one with the greatest bias, from 50 up."""
        if not isinstance(bias, dict) or not bias:
            return None
        pairs = [(float(value), int(key)) for key, value in bias.items()]
        value, number = max(pairs)
        return chr(number) if value >= 50 and 0 < number < 0x110000 else None

    def _base(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": _CREATED, "model": self.cluster.settings.model}

    def _usage(self, done: Done) -> dict[str, Any]:
        usage: dict[str, Any] = {
            "prompt_tokens": done.prompt_tokens,
            "completion_tokens": done.completion_tokens,
            "total_tokens": done.prompt_tokens + done.completion_tokens,
        }
        if done.cached_tokens:
            usage["prompt_tokens_details"] = {"cached_tokens": done.cached_tokens}
        return usage

    def streamed(self, events: Iterator[Event], served: Served) -> Iterator[tuple[float, bytes | None]]:
        """Server-sent events. An early role chunk comes before prefill is done, as some routers send it."""
        opened = False
        if "early-role" in self.cluster.switches and self.chat:
            yield 0.0, self._chunk({"role": "assistant", "content": ""}, None)
            opened = True
        for event in events:
            # Waiting is passed on at once, with nothing to send: other requests go on meanwhile, and free their pages.
            if isinstance(event, Delay):
                yield event.seconds, b""
            elif isinstance(event, Silence):
                yield float("inf"), b""
                return
            elif isinstance(event, Cut):
                yield 0.0, None
                return
            elif isinstance(event, Refused):
                yield 0.0, self._late(event, opened, served)
                return
            else:
                if not opened and self.chat:
                    yield 0.0, self._chunk({"role": "assistant", "content": ""}, None)
                opened = True
                yield 0.0, (self._done(event) if isinstance(event, Done) else self._token(event))

    def _late(self, event: Refused, opened: bool, served: Served) -> bytes:
        """A refusal after some waiting: a status as long as nothing was sent, an event in the stream afterwards."""
        error = {"error": {"message": event.message, "code": event.status}}
        if opened:
            return _sse(error)
        served.status, served.content_type = event.status, "application/json"
        return _dump(error)

    def _token(self, event: Token) -> bytes:
        piece = self.cluster.tokenizer.piece(event.token)
        key = "reasoning_content" if event.channel == "reasoning" else "content"
        return self._chunk({key: piece}, None, self._logprobs([event]) if self.logprobs else None)

    def _done(self, event: Done) -> bytes:
        last = self._chunk({}, event.reason)
        if self.with_usage:
            last += _sse({**self._base(self._kind()), "choices": [], "usage": self._usage(event)})
        return last + b"data: [DONE]\n\n"

    def _kind(self) -> str:
        return "chat.completion.chunk" if self.chat else "text_completion"

    def _chunk(self, delta: dict[str, str], reason: str | None, logprobs: Any = None) -> bytes:
        choice: dict[str, Any] = {"index": 0, "finish_reason": reason, "logprobs": logprobs}
        if self.chat:
            choice["delta"] = delta
        else:
            choice["text"] = delta.get("content", delta.get("reasoning_content", ""))
        return _sse({**self._base(self._kind()), "choices": [choice]})

    def _logprobs(self, tokens: list[Token]) -> dict[str, Any]:
        pieces = [self.cluster.tokenizer.piece(token.logprob_token) for token in tokens]
        if self.chat:
            return {
                "content": [{"token": piece, "logprob": -0.01, "bytes": None, "top_logprobs": []} for piece in pieces]
            }
        return {"tokens": pieces, "token_logprobs": [-0.01] * len(pieces), "top_logprobs": None, "text_offset": []}

    def whole(self, events: Iterator[Event], served: Served) -> Iterator[tuple[float, bytes | None]]:
        """One JSON body once all is there."""
        tokens = list[Token]()
        for event in events:
            if isinstance(event, Delay):
                yield event.seconds, b""
            elif isinstance(event, Token):
                tokens.append(event)
            elif isinstance(event, Silence):
                yield float("inf"), b""
            elif isinstance(event, Cut):
                yield 0.0, None
                return
            elif isinstance(event, Refused):
                yield 0.0, self._late(event, False, served)
                return
            else:
                yield 0.0, _dump(self._body(tokens, event))

    def _body(self, tokens: list[Token], done: Done) -> dict[str, Any]:
        decode = self.cluster.tokenizer.decode
        text = decode("".join(t.token for t in tokens if t.channel == "content"))
        choice: dict[str, Any] = {"index": 0, "finish_reason": done.reason}
        choice["logprobs"] = self._logprobs(tokens) if self.logprobs else None
        if self.chat:
            choice["message"] = {"role": "assistant", "content": text}
            thought = decode("".join(t.token for t in tokens if t.channel == "reasoning"))
            if thought:
                choice["message"]["reasoning_content"] = thought
        else:
            choice["text"] = text
        kind = "chat.completion" if self.chat else "text_completion"
        return {**self._base(kind), "choices": [choice], "usage": self._usage(done)}


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _sse(value: Any) -> bytes:
    return b"data: " + _dump(value) + b"\n\n"


def _json(status: int, value: Any) -> Served:
    return Served(status, "application/json", iter(((0.0, _dump(value)),)))


def worker_apps(cluster: Cluster) -> Generator[App, None, None]:
    """The faces of a disaggregated cluster: router, prefill, decode."""
    for face in ("router", "prefill", "decode"):
        yield App(cluster, face)
