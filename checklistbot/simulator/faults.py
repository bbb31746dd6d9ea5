"""The faults by name, as data. Each names what the server does wrong; several may be switched on together.

Numbers are those of the project's fault catalogue (b…: after a bug of a real engine that it lists). ``twin`` marks what is no fault and must not be taken for one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from checklistbot.model import UsageError
from checklistbot.record import record


@record
class Fault:
    name: str
    number: str
    text: str
    #: The switches of ``Settings.switches`` that it sets.
    switches: frozenset[str]
    twin: bool = False


def _fault(name: str, number: str, switches: str, text: str, *, twin: bool = False) -> Fault:
    return Fault(name, number, text, frozenset(switches.split()), twin)


_ALL: Final = (
    _fault("stub-handoff", "1", "stub", "a prompt that does not fit is handed on as one token; decode answers from stale pages"),
    _fault("stub-stale-logprob", "2", "stub stale-logprob", "the same, and the first log probability is an earlier request's"),
    _fault("stub-decode-zeroed", "3", "stub zero-decode", "the same, but decode zeroes its pages: only the prefill page's stale slots are left"),
    _fault("stub-all-zeroed", "3b", "stub zero-decode zero-prefill", "the same, and both sides zero their pages: an answer from nothing"),
    _fault("stub-output-pages", "4", "stub zero-prompts zero-prefill", "the same, and only what earlier requests were answered is left in the pages"),
    _fault("stub-paraphrase", "5", "stub paraphrase", "the same, retold in other words"),
    _fault("stub-three-words", "6", "stub three-words", "the same, only three words of the foreign text come out"),
    _fault("stub-one-page", "8", "stub one-page", "the same, decode sees only the one page that was sent, with its stale slots"),
    _fault("reject", "9", "", "no fault: a prompt that does not fit is refused with 400", twin=True),
    _fault("proxy-413", "10", "proxy", "a proxy in front refuses big bodies with 413", twin=True),
    _fault("empty", "11", "empty", "200 with an empty answer where the prompt does not fit"),
    _fault("hang", "12", "hang", "no answer at all where the prompt does not fit"),
    _fault("cut-stream", "13", "stub cut", "the stream ends in the middle, without [DONE]"),
    _fault("garbage", "14", "stub garble zero-prefill", "200 with random tokens where the prompt does not fit"),
    _fault("truncate-tail", "15", "keep-head", "a prompt that does not fit loses its end without a word"),
    _fault("truncate-head", "16", "keep-tail", "a prompt that does not fit loses its beginning without a word"),
    _fault("swap", "17", "swap", "two streams that are answered at the same time are crossed"),
    _fault("half-chunk", "21", "half-chunk", "of every prefill chunk but the last the second half is not written"),
    _fault("off-by-one", "25", "stub only-limit", "only the exact first length that must be refused goes through as in stub-handoff"),
    _fault("usage-lies", "28", "stub usage-one", "stub-handoff, and usage tells one prompt token"),
    _fault("early-role", "29", "stub early-role", "stub-handoff behind a router that sends a role chunk at once"),
    _fault("reasoning-leak", "30", "stub reasoning", "stub-handoff: the foreign text is in reasoning_content, the content looks clean"),
    _fault("lost-transfer", "b15", "lost", "long prompts are prefilled but their pages never arrive: decode answers from stale pages, below the limit"),
    _fault("lost-transfer-zeroed", "b15z", "lost zero-decode", "the same, and decode zeroes its pages: an answer from nothing"),
    _fault("lost-transfer-output", "b15o", "lost zero-prompts", "the same, and only what earlier requests were answered is left in the pages"),
    _fault("lost-transfer-retold", "b15r", "lost paraphrase", "the same, retold in other words"),
    _fault("mixed-metadata", "b2", "mixed-logprobs", "of answers that begin together the first log probability is another one's; the text is right"),
    _fault("admits-all", "-", "admit", "a prompt longer than the stated limit is answered, and rightly"),
    _fault("weak-model", "t1", "weak", "a model that gets one code in ten wrong", twin=True),
    _fault("hopeless-model", "t1b", "hopeless", "a model that gets every code wrong", twin=True),
    _fault("echo", "t2", "echo", "a model that repeats the instruction first", twin=True),
    _fault("prefix-cache", "t3", "prefix", "a prefix cache that makes a shared beginning fast", twin=True),
    _fault("not-deterministic", "t4", "noise", "the same prompt is answered with other words each time", twin=True),
    _fault("slow", "t5", "slow", "ten times slower", twin=True),
    _fault("refusal", "t6", "refuses", "a model that refuses", twin=True),
    _fault("rate-limit", "t7", "limit-rate", "429 for every third request", twin=True),
    _fault("tokenizer-off", "t8", "tokenize-off", "/tokenize counts one token less than usage", twin=True),
    _fault("common-words", "t9", "chatty", "ordinary prose with the words that canaries are made of", twin=True),
    _fault("early-role-healthy", "t10", "early-role", "a router that sends a role chunk at once, and no fault behind it", twin=True),
)  # fmt: skip
FAULTS: Final[dict[str, Fault]] = {fault.name: fault for fault in _ALL}


def switches_of(names: Iterable[str]) -> frozenset[str]:
    """The switches of these faults; raises UsageError for a name that is none."""
    found: set[str] = set()
    for name in names:
        if name not in FAULTS:
            raise UsageError(f"there is no fault {name!r}; `checklistbot simulate --list` names them")
        found |= FAULTS[name].switches
    return frozenset(found)
