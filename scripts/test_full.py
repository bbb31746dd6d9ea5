"""`make test-full`: what the probe finds, measured. Every number is a run against the simulator, in virtual time.

Tables: each fault over many seeds; healthy servers and false-positive twins; each oracle switched off; other tests beside it.
`--seeds N` for a shorter run. Exit code 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from probe_direct import SMALL, DirectTransport  # type: ignore[import-not-found]

from checklistbot.probe.oracles import all_oracles
from checklistbot.probe.run import Options, Probe, Result
from checklistbot.simulator.engine import Settings
from checklistbot.simulator.faults import FAULTS

_WINDOW = [name for name, fault in FAULTS.items() if not fault.twin]
_INCIDENT = "stub-handoff"


def probe(
    settings: Settings, seed: int, *, off: tuple[str, ...] = (), hidden: tuple[str, ...] = ()
) -> tuple[Result, DirectTransport]:
    """One smoke run; order of free pages and sizes change with the seed."""
    order = ("lifo", "fifo", "shuffled")[seed % 3]
    page = (16, 32, 8)[seed % 3]
    made = dataclasses.replace(settings, seed=seed, order=order, page_size=page)  # type: ignore[arg-type]
    transport = DirectTransport(made, hidden=hidden)
    return Probe(transport, Options(key=f"full-{seed}", seed=seed, oracles_off=off, watch_seconds=0)).run(), transport


# --- faults --------------------------------------------------------------------------------------------------------------


def faults(seeds: int) -> Iterator[str]:
    """Detected how often, by which oracles, after how many requests."""
    yield "| fault | detected | oracles (share of runs) | requests until the first failure | of these over the limit | in the whole run |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name in _WINDOW:
        results = [probe(dataclasses.replace(SMALL, faults=(name,)), seed)[0] for seed in range(seeds)]
        found = [result for result in results if result.summary.verdict == "fail"]
        by = Counter(oracle for result in found for oracle in _failing(result))
        named = ", ".join(f"{oracle} {count / seeds:.0%}" for oracle, count in by.most_common())
        first = [_first_failure(result) for result in found]
        requests, over = max(at for at, _ in first), max(over for _, over in first)
        whole = max(r.requests for r in results)
        if len(found) < 0.99 * seeds:
            missed.append(f"{name}: detected {len(found)} of {seeds}")
        if name == _INCIDENT and over > 3:
            missed.append(f"the incident took {over} requests over the limit")
        yield f"| {FAULTS[name].number} {name} | {len(found)}/{seeds} | {named} | ≤ {requests} | ≤ {over} | ≤ {whole} |"


def _first_failure(result: Result) -> tuple[int, int]:
    """Prompts sent until the first reply that fails, and how many of them were over the limit."""
    cases = result.run.cases
    at = next(number for number, case in enumerate(cases, 1) if case.verdict.startswith("FAIL"))
    return at, sum(case.phase == "over" for case in cases[:at])


# --- healthy -------------------------------------------------------------------------------------------------------------


def healthy(seeds: int) -> Iterator[str]:
    """No failure on anything healthy; weak models and proxies are inconclusive."""
    yield "| healthy server or twin | runs | replies | failures | pass | inconclusive |"
    yield "| --- | --- | --- | --- | --- | --- |"
    total = 0
    inconclusive = {"proxy-413", "hopeless-model", "refusal", "rate-limit"}
    shapes = {"": SMALL, " unified": dataclasses.replace(SMALL, disaggregated=False)}
    shapes[" equal pools"] = dataclasses.replace(SMALL, decode_pool=SMALL.prefill_pool)
    for name in [name for name, fault in FAULTS.items() if fault.twin]:
        for shape, settings in shapes.items():
            if shape and name != "reject":
                continue
            results = [probe(dataclasses.replace(settings, faults=(name,)), seed)[0] for seed in range(seeds)]
            replies = sum(len(result.run.cases) for result in results)
            total += replies
            count = Counter(result.summary.verdict for result in results)
            failures = sum(c.verdict.startswith("FAIL") for result in results for c in result.run.cases)
            if failures:
                missed.append(f"{name}{shape}: {failures} failures on a healthy server")
            if name in inconclusive and count["inconclusive"] < seeds:
                missed.append(f"{name}: {count['pass']} runs passed that prove nothing")
            if name == "reject" and count["pass"] < seeds:
                missed.append(f"{name}{shape}: only {count['pass']} of {seeds} passed")
            yield f"| {name}{shape} | {seeds} | {replies} | {failures} | {count['pass']} | {count['inconclusive']} |"
    yield f"\n{total} replies judged."
    if total < 3_000:
        missed.append(f"only {total} healthy replies judged")


# --- ablation ------------------------------------------------------------------------------------------------------------


def ablation(seeds: int) -> Iterator[str]:
    """Each oracle switched off, with a good model and with one that recalls nothing, limits told and hidden.

    An oracle earns its place by faults that go unseen without it, or that in some run only one other oracle sees (named): the two
    are each other's only second witness there. One with neither is dead code.
    """
    yield "| switched off | good model | recall 0 | recall 0, limits hidden |"
    yield "| --- | --- | --- | --- |"
    hidden = ("/server_info", "/get_server_info", "/metrics")
    setups: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
        ((), ()),
        (("hopeless-model",), ()),
        (("hopeless-model",), hidden),
    ]
    found = [_ablated(more, hide, seeds) for more, hide in setups]
    for off in ["(none)", *all_oracles()]:
        cells = []
        for unseen, backed in found:
            lost = unseen[off] - (unseen["(none)"] if off != "(none)" else set())
            parts = [f"unseen: {', '.join(sorted(lost))}"] if lost else []
            parts += [f"only {other} sees: {', '.join(sorted(names - lost))}" for other, names in sorted(backed[off].items()) if names - lost]  # fmt: skip
            cells.append("; ".join(parts) or "-")
        if off != "(none)" and set(cells) == {"-"}:
            missed.append(f"{off}: nothing needs it")
        yield f"| {off} | {' | '.join(cells)} |"


Unseen = dict[str, set[str]]


def _ablated(more: tuple[str, ...], hide: tuple[str, ...], seeds: int) -> tuple[Unseen, dict[str, dict[str, set[str]]]]:
    """Switched-off oracle → faults that go unseen in at least one run; → the one oracle left → faults that it alone sees then."""
    unseen: Unseen = defaultdict(set)
    backed: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for fault in _WINDOW:
        settings = dataclasses.replace(SMALL, faults=(fault, *more))
        for seed in range(seeds):
            whole, _ = probe(settings, seed, hidden=hide)
            if whole.summary.verdict != "fail":
                unseen["(none)"].add(fault)
                continue
            for off in _failing(whole):
                # Only an oracle that had a part in the failure can be missed.
                without, _ = probe(settings, seed, off=(off,), hidden=hide)
                left = _failing(without)
                if without.summary.verdict != "fail":
                    unseen[off].add(fault)
                elif len(left) == 1:
                    backed[off][min(left)].add(fault)
    return unseen, backed


def _failing(result: Result) -> set[str]:
    """The oracles that had a part in the run's failures."""
    return {o.oracle for c in result.run.cases if c.verdict.startswith("FAIL") for o in c.opinions}


# --- beside it -------------------------------------------------------------------------------------------------------------


def _ask(transport: DirectTransport, text: str, most: int = 64) -> tuple[int, str]:
    body = json.dumps(
        {"model": "simulated", "messages": [{"role": "user", "content": text}], "max_tokens": most}
    ).encode()
    played = transport.direct.play([("POST", "/v1/chat/completions", body)], deadline=60)[0]
    if played.error or played.status != 200:
        return 0 if played.error else played.status, ""
    choice = json.loads(b"".join(data for _, data in played.chunks))["choices"][0]["message"]
    return 200, str(choice["content"])


def status_test(transport: DirectTransport) -> bool:
    """Long prompts up to the context must be 200 or a clean 4xx, and in time: the incident's own pre-launch test."""
    sizes = (1_000, 4_000, 6_000, 8_000)
    return any(_ask(transport, "word " * size)[0] not in (200, 400) for size in sizes)


def haystack(transport: DirectTransport) -> bool:
    """One needle at five depths, lengths below the limit, one request at a time."""
    for size in (500, 1_000, 2_000, 4_000):
        for depth in (0.1, 0.3, 0.5, 0.7, 0.9):
            before = int(size * depth)
            text = (
                "word " * before + " The code of the day is 7654321. " + "word " * (size - before) + " List all codes."
            )
            if "7654321" not in _ask(transport, text)[1]:
                return True
    return False


def accuracy_gate(transport: DirectTransport) -> bool:
    """200 short questions, mean accuracy within 5 % of the reference, as engines' own end-to-end tests do."""
    right = sum(
        str(1_000_000 + n) in _ask(transport, f"The code is {1_000_000 + n}. " + "word " * 60 + "List all codes.")[1]
        for n in range(200)
    )
    return right < 190


def cross_session(transport: DirectTransport) -> bool:
    """One session tells a secret, the next asks for it: exact match, one after the other, short."""
    for number in range(20):
        secret = f"zq{number}secret"
        _ask(transport, f"Remember the word {secret}. ")
        if secret in _ask(transport, "Which word were you told to remember?")[1]:
            return True
    return False


def beside(seeds: int) -> Iterator[str]:
    """What other tests find of the same faults."""
    tests: dict[str, Callable[[DirectTransport], bool]] = {
        "status and latency": status_test, "needle in a haystack": haystack, "mean accuracy": accuracy_gate, "cross-session pairs": cross_session,
    }  # fmt: skip
    yield f"| fault | checklistbot probe | {' | '.join(tests)} |"
    yield "| --- " * (len(tests) + 2) + "|"
    for name in _WINDOW:
        settings = dataclasses.replace(SMALL, faults=(name,))
        ours = sum(probe(settings, seed)[0].summary.verdict == "fail" for seed in range(seeds))
        cells = [
            sum(test(DirectTransport(dataclasses.replace(settings, seed=seed))) for seed in range(seeds))
            for test in tests.values()
        ]
        yield f"| {name} | {ours}/{seeds} | {' | '.join(f'{cell}/{seeds}' for cell in cells)} |"


missed: list[str] = []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--only", choices=["faults", "healthy", "ablation", "beside"])
    given = parser.parse_args()
    tables = {
        "faults": (faults, given.seeds),
        "healthy": (healthy, given.seeds),
        "ablation": (ablation, 6),
        "beside": (beside, 3),
    }
    for name, (table, seeds) in tables.items():
        if given.only in (None, name):
            begun = time.monotonic()
            print(f"\n## {name} ({min(seeds, given.seeds)} seeds)\n")
            for line in table(min(seeds, given.seeds)):
                print(line, flush=True)
            print(f"\n{time.monotonic() - begun:.0f} s")
    print("\nAll goals reached." if not missed else "\nMissed:\n" + "\n".join(f"- {line}" for line in missed))
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
