"""One run of the probe: discover, calibrate, measure the healthy server, plant, climb the ladder, judge."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from typing import Any, Final

from checklistbot.model import InputError, UsageError
from checklistbot.probe import ladder as steps
from checklistbot.probe.case import Baseline, Case, Limits, Phase, Run, answerable, found_codes
from checklistbot.probe.discover import discover, settle
from checklistbot.probe.keys import RunKey
from checklistbot.probe.oracles.logprob_text import matches
from checklistbot.probe.prompts import Body, Maker, Prompt, body
from checklistbot.probe.reply import Reply, read
from checklistbot.probe.safety import watch
from checklistbot.probe.verdict import Summary, judge, judge_run, summarize
from checklistbot.probe.wire import Call, Transport
from checklistbot.record import mutable_record, record

#: SGLang's decode waits up to 300 s for a hand-off; only what is silent for longer hangs.
OVER_DEADLINE: Final = 340.0
_DEADLINE: Final = 900.0
#: A short request on a slow server: a CPU needs a minute for 500 tokens.
_SMALL: Final = 180.0
BUDGET: Final = 10_000_000
#: Over-limit requests after which a failing run stops, if none has named a victim before.
_ENOUGH: Final = 3


@record
class Options:
    """Lengths in tokens, times in seconds. ``plan`` are the items of a plan/1, None for the profile's own ladder."""

    key: str
    seed: int = 0
    model: str | None = None
    limits: Limits | None = None
    context: int | None = None
    kv_pool: int | None = None
    plan: Sequence[dict[str, Any]] | None = None
    budget: int = BUDGET
    dry_run: bool = False
    answer_tokens: int = 96
    watch_seconds: float = 10.0
    allow_live_traffic: bool = False
    over_deadline: float = OVER_DEADLINE
    concurrency: int = 8
    oracles_off: Collection[str] = ()


@mutable_record
class Result:
    """``run`` holds replies' text in memory only; ``summary`` and evidence hold none. ``interrupted``: Ctrl-C came."""

    run: Run
    summary: Summary
    ladder: steps.Ladder | None
    requests: int
    over_requests: int
    tokens: int
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)


Notify = Callable[[str, dict[str, Any]], None]


def _silent(event: str, data: dict[str, Any]) -> None:
    return None


class _Stop(Exception):
    """The ladder ends here: a failure is proven, or the endpoint is not well."""


def _only_too_soon(case: Case) -> bool:
    return bool(case.opinions) and all(opinion.oracle == "ttft-floor" for opinion in case.opinions)


def _named(case: Case) -> bool:
    """Whether a reply names the tenant whose text it carries."""
    return any(name.startswith("t") and not name.endswith("?") for o in case.opinions for name in o.canaries)


def _named_limit(case: Case, good: int) -> int | None:
    """A limit that the engine's refusal names, if it lies between what was answered and what was refused."""
    named = {number for number in case.reply.numbers if good < number < case.length - 8}
    return min(named) if case.reply.engine_error and len(named) == 1 else None


class Probe:
    """``notify(event, data)`` hears phase, progress and announce. Raises UsageError, InputError; a Ctrl-C ends in a result."""

    def __init__(
        self, transport: Transport, options: Options, notify: Notify = _silent, *, counter: Transport | None = None
    ) -> None:
        """``counter`` is where /tokenize is asked, if not at the endpoint itself."""
        self._transport = transport
        self._counter = counter or transport
        self._options = options
        self._notify = notify
        self._key = RunKey.of(options.key, options.seed)
        self._run = Run(self._key, Limits())
        self._maker = Maker(self._key, self._count)
        self._model = options.model
        self._chat = True
        self._extras: dict[str, Any] = {"logprobs": True}
        self._tokenizes, self._whole, self._offset = True, False, 0
        self._counts: dict[str, int] = {}
        self._answer = options.answer_tokens
        self._ladder: steps.Ladder | None = None
        self._notes: list[str] = []
        self._requests = self._over_requests = self._tokens = self._batch = self._failing = self._tenants = 0

    def run(self) -> Result:
        """The whole run; what was learnt before an interruption is kept."""
        interrupted = False
        try:
            self._all()
        except _Stop:
            pass
        except InputError:
            # Nothing was learnt yet: one line says why. Later, what was found is still written.
            if not self._run.cases:
                raise
            self._notes.append("no-result")
        except KeyboardInterrupt:
            interrupted = True
            self._notes.append("interrupted")
        judge_run(self._run, off=self._options.oracles_off)
        expects = bool(self._ladder is None or self._ladder.over)
        summary = summarize(self._run, notes=self._notes, expects_refusal=expects)
        if self._options.dry_run:
            summary = Summary("inconclusive", {}, ["dry-run"])
        return Result(
            self._run,
            summary,
            self._ladder,
            self._requests,
            self._over_requests,
            self._tokens,
            interrupted,
            self._notes,
        )

    # --- the phases ---------------------------------------------------------------------------------------------------

    def _all(self) -> None:
        self._discover()
        known = self._run.limits.first_rejected
        if known is not None:
            self._ladder = self._lengths(known)
            self._afford(self._ladder)
        if self._options.dry_run:
            self._notes.append("dry-run")
            return
        self._foreign_traffic()
        self._notify("phase", {"name": "baseline"})
        self._learn_api()
        if known is None:
            known = self._hunt()
            self._ladder = self._lengths(known)
            self._afford(self._ladder)
        ladder = self._ladder
        assert ladder is not None  # noqa: S101 - made above on both ways.
        self._learn_baseline(ladder)
        self._notify("speed", {"seconds": self._run.baseline.slope})
        self._together(ladder.together)
        self._fill(ladder.early)
        self._phase("below", ladder.below)
        self._fill(ladder.fillers)
        self._over(ladder.over)
        self._after()
        self._notes += ["not-done"] if ladder.skipped else []

    def _discover(self) -> None:
        options = self._options
        self._notify("phase", {"name": "discover"})
        found, model = discover(self._transport)
        self._model = self._model or model
        told = options.limits or Limits()
        for name in ("context", "page", "chunk", "engine", "version"):
            if getattr(found, name) is None:
                setattr(found, name, getattr(told, name))
        found.pools = found.pools or dict(told.pools)
        if found.first_rejected is None and told.first_rejected is not None:
            found.first_rejected, found.sure = told.first_rejected, told.sure
        if options.context is not None:
            found.context = options.context
        if options.kv_pool is not None:
            found.pools = {"unified": options.kv_pool}
            found.engine = found.engine or "sglang"
        if found.first_rejected is None:
            settle(found)
        self._run.limits = found
        if self._model is None:
            raise InputError(
                "URL: /v1/models tells no model; name it with --model, or check the address and CHECKLISTBOT_ENDPOINT_AUTH"
            )

    def _lengths(self, known: int) -> steps.Ladder:
        if known < 2 * steps.SHORT:
            raise UsageError(
                f"a first rejected length of {known} tokens is too short for the probe, which needs {2 * steps.SHORT}"
            )
        if self._options.plan is not None:
            return steps.planned(self._options.plan, self._run.limits, self._answer, known=known)
        return steps.smoke(self._run.limits, self._answer, known=known)

    def _afford(self, ladder: steps.Ladder) -> None:
        need = ladder.tokens()
        sent = {"requests": self._requests + ladder.requests(), "tokens": self._tokens + need}
        self._notify("estimate", {**sent, "seconds": need / steps.PREFILL_SPEED})
        if need > self._options.budget:
            raise UsageError(f"this run would send about {need} tokens; give --budget-tokens {need} if that is meant")

    def _foreign_traffic(self) -> None:
        self._notify("phase", {"name": "watch"})
        seen = watch(self._transport, self._options.watch_seconds)
        if seen and not self._options.allow_live_traffic:
            raise UsageError(
                "the endpoint is serving other requests; a probe there could stall them and show their text. "
                "Use a staging endpoint, or --allow-live-traffic"
            )

    # --- calls --------------------------------------------------------------------------------------------------------

    def _path(self) -> str:
        return "/v1/chat/completions" if self._chat else "/v1/completions"

    def _request(self, prompt: Prompt, max_tokens: int, stream: bool = True) -> Body:
        options: dict[str, Any] = {"model": self._model, "max_tokens": max_tokens, "temperature": 0}
        if stream:
            options |= {"stream": True, "stream_options": {"include_usage": True}}
        if self._extras.get("logprobs"):
            options["logprobs"] = True if self._chat else 1
        return body(prompt, chat=self._chat, options=options)

    def _send(
        self,
        prompts: Sequence[tuple[Prompt, int]],
        phase: Phase,
        *,
        deadline: float,
        concurrency: int = 1,
        stream: bool = True,
    ) -> list[Case]:
        """Send, read, keep and judge; never again what was sent once."""
        self._spend(sum(prompt.length + most for prompt, most in prompts))
        calls = [Call("POST", self._path(), self._request(prompt, most, stream), deadline) for prompt, most in prompts]
        answers = self._transport.send(calls, concurrency)
        self._batch += 1
        self._requests += len(calls)
        cases = [
            Case(prompt, read(answer), phase, most, deadline, self._batch)
            for (prompt, most), answer in zip(prompts, answers, strict=True)
        ]
        self._run.cases += cases
        for case in cases:
            judge(case, self._run, off=self._options.oracles_off)
            self._notify("reply", {"case": case, "requests": self._requests, "tokens": self._tokens})
        return cases

    def _spend(self, tokens: int) -> None:
        self._tokens += tokens
        if self._tokens > self._options.budget:
            self._notes.append("budget")
            raise _Stop

    def _count(self, text: str) -> int:
        """Tokens of a short text as a prompt: by /tokenize plus the template's share, else by usage of a one-token answer."""
        if text not in self._counts:
            counted = self._tokenized(text, whole=self._whole) if self._tokenizes else None
            if counted is None:
                self._tokenizes = False
                self._counts[text] = self._usage(text)
            else:
                self._counts[text] = counted + self._offset
        return self._counts[text]

    def _tokenized(self, text: str, *, whole: bool = False) -> int | None:
        """Tokens of a text, or of the ``whole`` chat with it as its one message; None where /tokenize does not tell."""
        asked: dict[str, Any] = {"prompt": text, "content": text}
        if whole:
            asked = {"messages": [{"role": "user", "content": text}], "add_generation_prompt": True}
        data = json.dumps({"model": self._model, **asked}).encode()
        answer = self._counter.send([Call("POST", "/tokenize", data, _SMALL)])[0]
        found = answer.json() if answer.status == 200 else None
        if not isinstance(found, dict):
            return None
        count, tokens = found.get("count"), found.get("tokens")
        if isinstance(count, int):
            return count
        return len(tokens) if isinstance(tokens, list) else None

    def _usage(self, text: str) -> int:
        """Usage of a one-token request. Raises InputError where the endpoint tells none."""
        reply = self._small(text)
        if reply.prompt_tokens is None:
            raise InputError(
                f"the endpoint gives no usage to count tokens with (status {reply.status}); check --model and CHECKLISTBOT_ENDPOINT_AUTH"
            )
        return reply.prompt_tokens

    def _small(self, text: str) -> Reply:
        prompt = Prompt("count", "needles", ((text, 1),), 0)
        options = {"model": self._model, "max_tokens": 1, "temperature": 0}
        call = Call("POST", self._path(), body(prompt, chat=self._chat, options=options), _SMALL)
        return read(self._transport.send([call])[0])

    # --- P0 -----------------------------------------------------------------------------------------------------------

    def _learn_api(self) -> None:
        """Chat where there is chat; how a text's tokens become a prompt's; whether blocks add up."""
        first = self._small("Hello.")
        if first.status in (404, 405):
            self._chat = False
            first = self._small("Hello.")
        if first.status != 200:
            raise InputError(
                f"the endpoint answers a plain request with status {first.status or first.error}; check --model and CHECKLISTBOT_ENDPOINT_AUTH"
            )
        self._learn_counting("The quick check of the tokens, 1234567.")
        try:
            self._maker.calibrate()
        except ValueError:
            self._learn_ids()
        probe = self._maker.needles(steps.SHORT, 8)
        reply = read(self._transport.send([Call("POST", self._path(), self._request(probe, 8), _SMALL)])[0])
        if reply.status in (400, 422, 501):
            self._extras = {}

    def _learn_counting(self, text: str) -> None:
        """Whether /tokenize counts whole chats, or texts to which the template's share is added, or nothing.

        A template's words may merge with the text's first, so whole chats are better.
        """
        plain = self._tokenized(text)
        self._tokenizes = plain is not None
        if plain is not None:
            used = self._usage(text)
            self._run.overhead = self._offset = used - plain
            whole = self._tokenized(text, whole=True) if self._chat else None
            if whole is not None and abs(used - whole) <= 2 and whole > plain:
                self._whole, self._offset = True, used - whole
        self._counts.clear()

    def _learn_ids(self) -> None:
        """Prompts as token ids, where the tokens of text do not add up: exact whatever the tokenizer merges.

        Raises InputError where /tokenize gives no ids or /v1/completions takes none.
        """
        ids = self._token_ids("The quick check of the tokens.")
        if ids:
            data = json.dumps({"model": self._model, "prompt": ids, "max_tokens": 1, "temperature": 0}).encode()
            reply = read(self._transport.send([Call("POST", "/v1/completions", data, _SMALL)])[0])
            if reply.status == 200 and reply.prompt_tokens == len(ids):
                self._chat, self._run.overhead = False, 0
                self._maker.use_ids(self._token_ids)
                return
        raise InputError(
            "the endpoint's token counts do not add up, and it takes no token ids; exact lengths cannot be made here (try --tokenize-url)"
        )

    def _token_ids(self, text: str) -> list[int]:
        """The ids of a text without a begin token; empty where the endpoint gives none."""
        data = json.dumps({"model": self._model, "prompt": text, "content": text, "add_special_tokens": False}).encode()
        answer = self._counter.send([Call("POST", "/tokenize", data, _SMALL)])[0]
        found = answer.json() if answer.status == 200 else None
        tokens = found.get("tokens") if isinstance(found, dict) else None
        return tokens if isinstance(tokens, list) and all(type(number) is int for number in tokens) else []

    def _learn_baseline(self, ladder: steps.Ladder) -> None:
        run, thinks = self._run, True
        run.baseline.short = ladder.baseline[0].length
        for point in ladder.baseline:
            case = self._one(point, "baseline")
            cut = case.answered and case.reply.finish == "length" and not self._kept(case)
            if cut and thinks and self._answer < 1_024:
                # A model that thinks first needs room before it says a code.
                self._answer = 1_024
                case = self._one(steps.Point(point.length, self._answer), "baseline")
                if not self._kept(case):
                    self._answer, thinks = self._options.answer_tokens, False
            self._measure(run.baseline, case)
        self._learn_slope(ladder.baseline[0].length)

    def _learn_slope(self, short: int) -> None:
        """Seconds a token of prefill, from the healthy replies at two lengths or more."""
        baseline = self._run.baseline
        cases = [
            case
            for case in self._run.cases
            if case.reply.ttft is not None and case.answered
            if case.phase == "baseline"
            or (case.phase == "over" and not case.opinions)
            or (case.phase == "after" and (not case.opinions or _only_too_soon(case)))
        ]
        shorts = [case.reply.ttft or 0.0 for case in cases if case.length <= short]
        longs = [(case.length, case.reply.ttft or 0.0) for case in cases if case.length > short]
        if shorts and longs:
            baseline.base = min(shorts)
            if min(took for _, took in longs) <= baseline.base:
                # The short ones ran on a busier machine than a long one.
                baseline.base = min(took * short / length for length, took in longs)
            slopes = [(took - baseline.base) / (length - short) for length, took in longs]
            # The smaller slope: a machine that was busy once must not make honest answers look too fast.
            baseline.slope = max(0.0, min(slopes)) or None
            baseline.longest = max(length for length, _ in longs)

    def _kept(self, case: Case) -> int:
        return len(found_codes(case.reply.text, case.prompt.codes))

    def _measure(self, baseline: Baseline, case: Case) -> None:
        if not case.answered or case.reply.error:
            return
        asked = answerable(case)
        baseline.asked += asked
        missed = asked - min(asked, self._kept(case))
        baseline.missed += missed
        if case.length > baseline.short:
            baseline.long_asked += asked
            baseline.long_missed += missed
        if case.reply.first_text:
            baseline.first_tokens.add(case.reply.first_text.strip())
        agree = matches(case.reply)
        baseline.logprobs_match += agree is True
        baseline.logprobs_differ += agree is False
        told = case.reply.prompt_tokens
        if told is not None and case.length:
            apart = abs(told - case.length)
            baseline.usage_differs += apart > 2
            baseline.off = max(baseline.off, apart if apart <= 2 else 0)

    def _one(self, point: steps.Point, phase: Phase, *, deadline: float = _DEADLINE, stream: bool = True) -> Case:
        prompt = self._prompt(point)
        return self._send([(prompt, self._room(point))], phase, deadline=deadline, stream=stream)[0]

    def _prompt(self, point: steps.Point) -> Prompt:
        needles = point.needles
        while True:
            try:
                return self._maker.needles(point.length, needles)
            except ValueError:
                if needles == 1:
                    raise UsageError(
                        f"{point.length} tokens are too few for a prompt with a code; give longer lengths"
                    ) from None
                needles = max(1, needles // 2)

    def _room(self, point: steps.Point) -> int:
        """The point's output tokens, more of them for a model that thinks first, as far as the context allows."""
        wanted = (
            max(point.max_tokens, self._answer) if point.max_tokens >= self._options.answer_tokens else point.max_tokens
        )
        return steps.room_of(point.length, wanted, self._run.limits.context)

    def _hunt(self) -> int:
        """The first rejected length where nobody tells it: longer and longer prompts, judged by content and TTFT, then halving
        between. Canaries are planted before each, so that a leak has a name.

        The engine's own refusal often names the limit. Raises InputError where nothing was refused within the budget.
        """
        self._notify("phase", {"name": "hunt"})
        self._learn_baseline(steps.Ladder(baseline=steps.baseline(16_384, self._answer)[:4]))
        good, length = steps.SHORT, 4_096
        context = self._run.limits.context
        bad = named = None
        while bad is None:
            if context is not None and length >= context:
                length = context
            self._fill(steps.filler_lengths(min(length, 4 * good), 8))
            case = self._once_over(steps.Point(length, self._answer))
            if case.verdict.startswith("FAIL"):
                self._run.limits.first_rejected = length
                self._name_victim(case)
                raise _Stop
            if case.reply.refused or case.reply.unsaid:
                bad, named = length, _named_limit(case, good)
                # What the first refusal names is what the front end knows: the context, which output shares.
                self._run.limits.context = context or named
            elif context is not None and length >= context:
                raise InputError("nothing was refused up to the context length; give --context or --kv-pool")
            else:
                self._learn_slope(steps.SHORT)
                good, length = length, length * 4
        return self._halve(good, bad, named)

    def _name_victim(self, case: Case) -> None:
        """After a failure that names nobody: tenants of the same size once more, then up to two more prompts of that length."""
        for _ in range(2):
            if _named(case):
                return
            self._fill(steps.filler_lengths(case.length, 8))
            case = self._once_over(steps.Point(case.length, self._answer))

    def _once_over(self, point: steps.Point) -> Case:
        """One announced request that may be over the limit, with its deadline. Where the stream breaks off before any text, the
        prompt is asked again as one JSON answer, the form in which such a server can refuse; both are kept."""
        self._notify("announce", {"length": point.length})
        case = self._one(point, "over", deadline=self._options.over_deadline)
        self._over_requests += 1
        if case.reply.unsaid:
            case = self._one(point, "over", deadline=self._options.over_deadline, stream=False)
            self._over_requests += 1
        return self._timed(case, point)

    def _halve(self, good: int, bad: int, named: int | None) -> int:
        """Between an answered and a refused length. A limit that a refusal names is tried first, one token below: a front end may
        name its own, while a worker behind it has a smaller one."""
        while bad - good > 1:
            middle = named - 1 if named is not None and good < named - 1 < bad else (good + bad) // 2
            case = self._once_over(steps.Point(middle, self._answer))
            if case.verdict.startswith("FAIL"):
                self._run.limits.first_rejected = middle
                self._name_victim(case)
                raise _Stop
            if case.reply.refused or case.reply.unsaid:
                bad, named = middle, _named_limit(case, good)
            elif named == middle + 1:
                good, bad = middle, named
            else:
                good = middle
        self._run.limits.first_rejected = bad
        self._notify("learnt", {"first_rejected": bad})
        return bad

    # --- P1 -----------------------------------------------------------------------------------------------------------

    def _phase(self, phase: Phase, points: Sequence[steps.Point]) -> None:
        self._notify("phase", {"name": phase})
        for point in points:
            case = self._timed(self._one(point, phase), point)
            if case.reply.error in ("timeout", "connect"):
                self._recovered()
            if case.verdict == "FAIL_INCOHERENT" and all(o.oracle == "own-needles" for o in case.opinions):
                self._again(case, point)
            if case.verdict.startswith("FAIL"):
                raise _Stop

    def _timed(self, case: Case, point: steps.Point) -> Case:
        """A reply that came too soon and is otherwise as it should be: a healthy length is timed at once, for the machine may have been
        slower during the baseline. If the suspicion stands, the same length is asked twice more: three replies make a failure."""
        if not _only_too_soon(case):
            return case
        control = self._one(steps.Point(self._run.baseline.longest, self._answer), "after")
        self._learn_slope(self._run.baseline.short)
        for each in (control, case):
            judge(each, self._run, off=self._options.oracles_off)
        for _ in range(2):
            if not _only_too_soon(case):
                return case
            case = self._one(point, case.phase, deadline=case.deadline)
            self._over_requests += case.phase == "over"
        judge_run(self._run, off=self._options.oracles_off)
        return case

    def _again(self, case: Case, point: steps.Point) -> None:
        """Lost codes alone, below the limit: once more with fresh codes. Both stand in the report; only both make a failure."""
        second = self._one(point, case.phase)
        if second.verdict == "PASS_ANSWER":
            case.opinions = [o.__class__(o.oracle, o.verdict, "suspect", o.canaries, o.seen) for o in case.opinions]
            case.verdict = "SUSPECT"

    def _together(self, points: Sequence[steps.Point]) -> None:
        """Short prompts at the same time: whose answer comes on whose connection."""
        if not points:
            return
        prompts = [(self._prompt(point), self._room(point)) for point in points]
        cases = self._send(prompts, "together", deadline=_DEADLINE, concurrency=len(points))
        if any(case.verdict.startswith("FAIL") for case in cases):
            raise _Stop

    def _fill(self, lengths: Sequence[int]) -> None:
        """Tenants with canaries, all at once, then let free: their pages are the next to be given away."""
        if not lengths:
            return
        self._notify("phase", {"name": "fill"})
        room = max(64, 4 * (self._run.limits.page or 16))
        context = self._run.limits.context
        first, self._tenants = self._tenants, self._tenants + len(lengths)
        fillers = [
            self._maker.filler(first + at, length - room, repeat=at % 2 == 1) for at, length in enumerate(lengths)
        ]
        prompts = [(filler, steps.room_of(filler.length, room, context)) for filler in fillers]
        cases = self._send(prompts, "filler", deadline=_DEADLINE, concurrency=self._options.concurrency)
        if any(case.verdict.startswith("FAIL") for case in cases):
            raise _Stop

    def _over(self, points: Sequence[steps.Point]) -> None:
        """Over the limit: announced, last, one at a time, each with a deadline; recovery is verified where one hung."""
        if not points:
            return
        self._notify("phase", {"name": "over"})
        for point in points:
            case = self._once_over(point)
            if case.reply.error in ("timeout", "connect", "cut"):
                self._recovered()
            if case.verdict.startswith("FAIL"):
                self._failing += 1
                if _named(case) or self._failing >= _ENOUGH or case.verdict == "FAIL_HANG":
                    raise _Stop

    def _recovered(self) -> None:
        """A short request must be answered, else the run ends: the engine is stalled."""
        case = self._one(steps.Point(steps.SHORT, self._answer), "after", deadline=_SMALL)
        if case.reply.error or case.verdict.startswith("FAIL"):
            self._notes.append("not-recovered")
            raise _Stop

    def _after(self) -> None:
        self._notify("phase", {"name": "after"})
        self._one(steps.Point(steps.SHORT, self._answer), "after", deadline=_SMALL)
