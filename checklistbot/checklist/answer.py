"""A pasted answer becomes drafts: JSON in our form or another, fenced JSON, or a Markdown checklist as chats write one.

Task lists, headed prose with "How" and "Pass" parts, bullets and tables are understood, in English and Korean; a refusal and a cut
answer are recognised. The text is data: it is read, bounded and handed to ``assemble``, which checks it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from checklistbot import strict_yaml
from checklistbot.checklist import loose
from checklistbot.checklist.assemble import Draft
from checklistbot.checklist.labels import NOT_ITEMS, Part, labelled, part_of, severity_of, topic_of, when_of
from checklistbot.checklist.outline import Block, Code, Entry, Listing, Paragraph, Section, Table, outline
from checklistbot.checklist.validate import Invalid, drafts, load_json
from checklistbot.lazy import pattern
from checklistbot.llm.base import MAX_ANSWER_BYTES
from checklistbot.model import UsageError
from checklistbot.record import mutable_record, record

if TYPE_CHECKING:
    from checklistbot.llm.base import Reason

MAX_ITEMS: Final = 120
_MAX_STEPS: Final = 24
#: Longer code is a program, not a step of a checklist (lines).
_MAX_CODE: Final = 16


@record
class Parsed:
    """What became of an answer. ``reason`` says why it is not "ok"; a "truncated" one keeps the drafts that arrived."""

    kind: Literal["ok", "refused", "truncated", "empty"]
    drafts: tuple[Draft, ...] = ()
    reason: Reason = "empty"


def parse(text: str) -> Parsed:
    """The drafts of a pasted answer; never raises for its content."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_ANSWER_BYTES:
        return Parsed("empty", reason="too-large")
    if not text.strip():
        return Parsed("empty")
    if (found := _json(text)) is not None:
        return found
    if (found := _yaml(text)) is not None:
        return found
    text = loose.markdown(text)
    document = outline(text)
    if _refuses(text):
        return Parsed("refused", reason="refused")
    if _is_program(document, text):
        return Parsed("empty", reason="wrong-schema")
    items = tuple(_Reader(document).drafts())[:MAX_ITEMS]
    if _cut(text, document):
        return Parsed("truncated", items, "truncated")
    return Parsed("ok", items) if items else Parsed("empty", reason="wrong-schema")


# --- refused, cut ------------------------------------------------------------------------------------------------------

_REFUSAL = pattern(
    r"(?:i(?:['’]m| am)? (?:sorry|afraid|unable|not able)|i (?:can(?:['’]t|not)|won['’]t|must decline|have to decline)|can(?:['’]t|not) (?:help|assist|comply)"
    r"|as an ai\b|죄송(?:하지만|합니다)|도와드릴 수 없|제공할 수 없|도움을 드릴 수 없|답변(?:을)? (?:드릴|할) 수 없|응할 수 없|작성해 드릴 수 없)",
    re.IGNORECASE,
)


def _refuses(text: str) -> bool:
    """A refusal says so at the start, and is no checklist: no box, no table, no code, and short."""
    opening = text.strip()[:400]
    structured = re.search(r"^\s*[-*+]\s+\[[ xX]\]|^\s*\|.*\|\s*$|^```|^#{1,6}\s", text, re.MULTILINE)
    return bool(_REFUSAL.search(opening)) and not structured and len(text) < 4_000


def _is_program(document: Section, text: str) -> bool:
    """True for the answer to "make a CI script of it": more than half of it is code, and nothing is ticked."""
    blocks = [block for section in document.walk() for block in section.blocks]
    code = sum(len(block.text) for block in blocks if isinstance(block, Code) and block.text.count("\n") > _MAX_CODE)
    return code > len(text) // 2 and not any(True for _ in _boxes(blocks))


_UNFINISHED = pattern(
    r"(?:[,(\[{:：]|\b(?:and|or|the|an?|to|of|with|that|which|is|are|in|for|및|또는|그리고|혹은))$", re.IGNORECASE
)


def _cut(text: str, document: Section) -> bool:
    """True if the text ends in the middle of something: a fence, a table row, a bold or code span, a sentence, a promised section."""
    lines = [line for line in text.rstrip().split("\n") if line.strip()]
    last = lines[-1].strip()
    fences = sum(1 for line in lines if re.match(r"\s*(?:>\s*)?(?:[-*+]\s+|\d+[.)]\s+)?(?:```|~~~)", line))
    if fences % 2 == 1:
        return True
    if last.startswith("|") and _row_cut(lines):
        return True
    if re.fullmatch(r"\*\*[^*]+\*\*:?", last) and len(lines) > 1:
        return True
    if re.fullmatch(r"#{1,6}(?:\s.*)?|[-*+]\s*(?:\[[ xX]?\]?)?|\d+[.)]", last) or last.endswith(("\\", "…", "...")):
        return True
    if (
        last.count("`") % 2
        or last.count("**") % 2
        or last.count("(") > last.count(")")
        or _UNFINISHED.search(last.strip("*_ "))
    ):
        return True
    return _sentence_cut(last, document) or _word_cut(last, text) or _promise_broken(document)


def _row_cut(lines: list[str]) -> bool:
    """True if the last table row is shorter than the header, or the table has no row yet."""
    start = len(lines)
    while start and lines[start - 1].lstrip().startswith("|"):
        start -= 1
    rows = [line.strip() for line in lines[start:]]
    return len(rows) < 3 or not rows[-1].endswith("|") or rows[-1].count("|") < rows[0].count("|")


def _word_cut(last: str, text: str) -> bool:
    """True if the last word is no word of the text but the beginning of one: "send 200 reque"."""
    match = re.search(r"(?:^|[^\w])([A-Za-z]+)$", last)
    if not match or match[1].isupper():
        return False
    word = match[1].lower()
    if len(word) == 1:
        return word not in ("a", "i")
    others = set(re.findall(r"[a-z]+", text[: -len(match[1])].lower()))
    longer = [other.removeprefix(word) for other in others if other.startswith(word) and other != word]
    endings = ("s", "es", "ed", "d", "ing", "ly", "er", "ers", "or", "ion", "ions", "al", "able", "ment", "y")
    return word not in others and any(rest not in endings for rest in longer)


def _sentence_cut(last: str, document: Section) -> bool:
    """True if the last line has no full stop although nearly all others of its kind have one."""
    ended = re.compile(r"[.!?。:)\]\"'”’`*|…_]$")
    if ended.search(last) or last.startswith("|"):
        return False
    if re.search(r"[a-z가-힣)`]{2}[.!?] +\S", re.sub(r"\b(?:e\.g|i\.e|vs|etc|approx)\.", "", last)):
        return True  # one sentence is finished, the next is not
    item = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s")
    texts = (
        [p.text for s in document.walk() for p in _paragraphs(s.blocks)]
        if not item.match(last)
        else _entry_texts(document)
    )
    others = [text for text in texts if len(text) > 12][:-1]
    finished = sum(1 for text in others if ended.search(text))
    return len(others) >= 3 and len(last) > 8 and finished >= 0.9 * len(others)


def _paragraphs(blocks: Iterable[Block]) -> Iterator[Paragraph]:
    return (block for block in blocks if isinstance(block, Paragraph) and block.lead != block.text)


def _entry_texts(document: Section) -> list[str]:
    return [e.text for s in document.walk() for b in s.blocks if isinstance(b, Listing) for e in b.entries]


def _plain_title(text: str) -> str:
    return re.sub(r"^[\W\d_]+", "", text).casefold().strip()


def _promise_broken(document: Section) -> bool:
    """True if a numbered list at the start announces sections, some of which came and the last of which did not."""
    titles = {_plain_title(section.title) for section in document.walk() if section.title}
    first = [document, *document.sections[:1]]
    for block in (block for section in first for block in section.blocks):
        if isinstance(block, Listing) and block.ordered and len(block.entries) >= 3:
            announced = [_plain_title(entry.text) in titles for entry in block.entries]
            if sum(announced) >= 2 and announced[0] and not announced[-1]:
                return True
    return False


# --- JSON --------------------------------------------------------------------------------------------------------------

_FENCED = pattern(r"^[ \t]*```(?:json5?|jsonc)?[ \t]*\n(.*?)(?:\n[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)


def _json(text: str) -> Parsed | None:
    """The answer as JSON, None if it is none (Markdown that quotes a little JSON is not)."""
    bare = text.strip()
    candidates = (
        [bare] if bare[:1] in ("{", "[") else [m[1] for m in _FENCED.finditer(text) if m[1].lstrip()[:1] in ("{", "[")]
    )
    candidates = [c for c in candidates if len(c) > len(bare) // 2]
    if not candidates:
        return None
    content = max(candidates, key=len)
    try:
        return Parsed("ok", tuple(drafts(content)))
    except Invalid:
        pass
    try:
        data = load_json(content)
    except Invalid as error:
        if error.reason != "not-json" or error.errors == ("nested too deeply",):
            return Parsed("empty", reason="not-json")
        items = tuple(_from_json(_salvage(content), []))[:MAX_ITEMS]
        return Parsed("truncated", items, "truncated") if _opens_more(content) else Parsed("empty", items, "not-json")
    items = tuple(_from_json(data, []))[:MAX_ITEMS]
    return Parsed("ok", items) if items else Parsed("empty", reason="wrong-schema")


_YAML_FENCE = pattern(r"^[ \t]*```ya?ml[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL | re.MULTILINE)
_YAML_START = pattern(r"(?:---\s*\n)?(?:[A-Za-z_]{3,30}:\s*\n|-\s+(?:id|title|name|item|check|topic):\s)")


def _yaml(text: str) -> Parsed | None:
    """The answer as YAML, bare or in a fence that is most of it; None if it is none or holds no item."""
    bare = text.strip()
    fenced = [m[1] for m in _YAML_FENCE.finditer(text)]
    content = max(fenced, key=len, default="") if fenced else bare if _YAML_START.match(bare) else ""
    if len(content) <= len(bare) // 2:
        return None
    try:
        data = strict_yaml.parse(content, "answer").plain()
    except UsageError:
        return None
    items = tuple(_from_json(data, []))[:MAX_ITEMS]
    return Parsed("ok", items) if items else None


def _opens_more(text: str) -> bool:
    """True if brackets are open at the end, as in an answer that was cut off."""
    outside = re.sub(r'"(?:[^"\\]|\\.)*(?:"|\Z)', "", text, flags=re.DOTALL)
    return outside.count("{") + outside.count("[") > outside.count("}") + outside.count("]")


def _salvage(text: str) -> list[Any]:
    """The complete objects in cut JSON, the outermost that are whole; at most 2,000 attempts."""
    decoder = json.JSONDecoder()
    found: list[Any] = []
    at = attempts = 0
    while (at := text.find("{", at)) >= 0 and attempts < 2_000:
        attempts += 1
        try:
            value, at = decoder.raw_decode(text, at)
            found.append(value)
        except (ValueError, RecursionError):
            at += 1
    return found


_LISTS: Final = frozenset(
    ("items", "checklist", "checks", "tasks", "points", "항목", "점검항목", "점검 항목", "체크리스트")
)


def _from_json(data: Any, headings: list[str]) -> Iterator[Draft]:
    """Items anywhere in a JSON value: objects that have a title and say how to verify or when it passes."""
    if isinstance(data, list):
        for entry in data:
            yield from _from_json(entry, headings)
        return
    if not isinstance(data, dict):
        return
    parts = _json_parts(data)
    section = not parts.passes and any(key.lower() in _LISTS and _all_texts(value) for key, value in data.items())
    if parts.title and not section and (parts.steps or parts.passes or parts.commands):
        yield parts.draft(headings)
        return
    name = next(
        (
            v
            for k, v in data.items()
            if isinstance(v, str)
            and k.lower() in ("section", "title", "name", "category", "topic", "phase", "섹션", "구분", "분류")
        ),
        "",
    )
    below = [*headings, name] if name else headings
    for key, value in data.items():
        if _all_texts(value):
            if key.lower() in _LISTS and below:
                yield from (_Parts(title=text).draft(below) for text in value)
        elif isinstance(value, (dict, list)):
            yield from _from_json(value, below if name else [*below, key.replace("_", " ")])


def _all_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, str) for entry in value)


def _json_parts(data: dict[str, Any]) -> _Parts:
    parts = _Parts()
    for key, value in data.items():
        part = part_of(key, prefer=("pass", "fail", "how"))
        texts = _texts(value)
        if part is None or (part == "title" and parts.title):
            if (
                texts
                and not isinstance(value, (bool, dict))
                and key.lower() not in ("done", "blocking", "status", "automation", "facts_used")
            ):
                parts.extra.append(f"{key.replace('_', ' ')}: {', '.join(texts)}")
        else:
            parts.put(part, texts)
    parts.steps += parts.extra if parts.steps or parts.passes or parts.commands else []
    return parts


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, (int, float)):
        return [str(value)]
    if isinstance(value, list):
        return [text for entry in value if not isinstance(entry, (dict, list)) for text in _texts(entry)]
    return []


# --- one item ----------------------------------------------------------------------------------------------------------

_PROGRAM = pattern(
    r"\$?\s*(?:sudo\s+)?(?:curl|jq|grep|egrep|kubectl|docker|helm|python3?|sglang|vllm|nvidia-smi|checklistbot|openssl|git|pytest|bash|ssh|watch|for|while|if|export)\s+\S"
)
_SHELLS: Final = ("bash", "sh", "shell", "console", "zsh", "terminal")


@mutable_record
class _Parts:
    """An item while it is gathered."""

    title: str = ""
    steps: list[str] = field(default_factory=list)
    passes: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    why: list[str] = field(default_factory=list)
    owner: str = ""
    when: str = ""
    severity: str = ""
    extra: list[str] = field(default_factory=list)

    def put(self, part: Part, texts: Iterable[str]) -> None:
        """Adds texts to the part they belong to."""
        texts = [text.strip() for text in texts if text.strip()]
        if part == "how":
            for text in texts:
                self.add_step(text)
        elif part == "commands":
            self.commands += texts
        elif part in ("pass", "fail"):
            self.passes += [f"not: {text}" if part == "fail" else text for text in texts]
        elif part == "why":
            self.why += texts
        elif part == "title":
            self.title = self.title or " ".join(texts)
        elif part in ("owner", "when", "severity"):
            setattr(self, part, getattr(self, part) or " ".join(texts))

    def add_step(self, text: str) -> None:
        """A step, or a command where the text is one."""
        if _PROGRAM.match(text) and not re.search(r"[.다요]\s*$", text):
            self.commands.append(text.lstrip("$ "))
        else:
            self.steps.append(text)

    def add_code(self, code: Code) -> None:
        """Lines of shell are commands, their comments and everything else are steps; a whole program is neither."""
        lines = [
            line
            for line in re.sub(r"\\\n\s*", " ", code.text).split("\n")
            if line.strip() and not line.startswith("#!")
        ]
        if len(lines) > _MAX_CODE:
            return
        for line in lines:
            text = line.strip()
            if code.language in _SHELLS or (not code.language and _PROGRAM.match(text)):
                if text.startswith("#"):
                    self.steps.append(text.lstrip("# "))
                else:
                    self.commands.append(text.lstrip("$ "))
            else:
                self.steps.append(text)

    def draft(self, headings: list[str], context: Iterable[str] = ()) -> Draft:
        title = _clean_title(self.title)
        steps = self.steps or ([] if self.commands else list(context)) or [title]
        return Draft(
            topic=topic_of(title, headings),
            title=title,
            steps=tuple(steps[:_MAX_STEPS]),
            pass_when=" · ".join(self.passes) or _criterion(title, self.steps),
            commands=tuple(self.commands[:_MAX_STEPS]),
            why=" ".join(self.why),
            owner=self.owner,
            severity=severity_of(self.severity),
            when=when_of(self.when, headings),
        )


_MUST = pattern(
    r"[≥≤=<>]|\bmust\b|\bshould\b|\bonly\b|\bnever\b|\bno \w|\bfail|\bequal|\bexactly\b|\bmatch|\b0\b|\bzero\b|이상|이하|같다|없다|없어야|이어야|여야|일치|0건|성립|않는다",
    re.IGNORECASE,
)


def _criterion(title: str, steps: list[str]) -> str:
    """What passes where the answer does not name it: the step that reads like a criterion, else the title, which says what must hold."""
    if _MUST.search(title):
        return title
    return next((step for step in steps if _MUST.search(step)), title)


def _clean_title(text: str) -> str:
    text = re.sub(r"^(?:step|단계)?\s*\d+(?:[.\-]\d+)*[.):]?\s+(?=\S)", "", text.strip(), flags=re.IGNORECASE)
    return re.sub(r"^\[[ xX]\]\s*", "", text).rstrip(" :：") or text


# --- Markdown ----------------------------------------------------------------------------------------------------------

_ID = pattern(r"(?:[A-Za-z]{0,4}-?\d{1,3}(?:[.\-]\d{1,3})*|[A-Z])", re.ASCII)
_ONE_OF = pattern(r"\b(?:one|any|either) of\b|pick one|choose|중 하나|하나를 (?:적용|선택)", re.IGNORECASE)


class _Reader:
    """Reads an outline in the form its author chose: boxes, parts under headings, or plain bullets."""

    def __init__(self, document: Section) -> None:
        self._document = document
        sections = list(document.walk())
        self._titles = {_plain_title(section.title) for section in sections if section.title}
        self._boxed = sum(1 for s in sections for e in _boxes(s.blocks)) >= 2

    def drafts(self) -> Iterator[Draft]:
        """All items, in order, without repetitions."""
        seen: set[tuple[str, ...]] = set()
        for draft in self._section(self._document, []):
            key = (draft.title.casefold(), draft.pass_when.casefold(), *draft.steps)
            if draft.title and key not in seen:
                seen.add(key)
                yield draft

    def _section(self, section: Section, path: list[str]) -> Iterator[Draft]:
        headings = [*path, section.title] if section.title else path
        if not self._has_boxes(section) and (item := _labelled_section(section)) is not None:
            yield item.draft(headings)
            return
        excluded = bool(NOT_ITEMS.search(section.title)) and not self._has_boxes(section)
        if not excluded:
            yield from self._blocks(section, headings)
        else:
            # What is signed off is work to do, wherever it stands.
            tables = [b for b in section.blocks if isinstance(b, Table) and "owner" in _columns(b)]
            yield from (draft for table in tables for draft in _rows(table, headings, []))
        for inner in section.sections:
            yield from self._section(inner, headings)

    def _has_boxes(self, section: Section) -> bool:
        return any(True for s in section.walk() for _ in _boxes(s.blocks))

    def _blocks(self, section: Section, headings: list[str]) -> Iterator[Draft]:
        context: list[str] = []
        count = 0
        for block in section.blocks:
            found: list[Draft] = []
            if isinstance(block, Paragraph):
                context = [block.text]
            elif isinstance(block, Listing):
                found = list(self._listing(block, section, headings))
            elif isinstance(block, Table):
                found = list(_rows(block, headings, context))
            count += len(found)
            yield from found
        if not count and not section.sections and not self._boxed and (whole := _whole_section(section)) is not None:
            yield whole.draft(headings)

    def _listing(self, listing: Listing, section: Section, headings: list[str]) -> Iterator[Draft]:
        if sum(1 for entry in listing.entries if _plain_title(entry.text) in self._titles) >= 2:
            return  # a table of contents
        boxed = any(entry.checked is not None for entry in listing.entries)
        if not boxed and (self._boxed or not _bullets_are_items(listing, section)):
            if any(True for entry in listing.entries for _ in _boxes(entry.blocks)):
                for entry in listing.entries:
                    yield from _children(entry, [*headings, entry.text], entry.text)
            return
        for entry in listing.entries:
            yield from _entry_items(entry, headings)


def _boxes(blocks: Iterable[Block]) -> Iterator[Entry]:
    for block in blocks:
        if isinstance(block, Listing):
            for entry in block.entries:
                if entry.checked is not None:
                    yield entry
                yield from _boxes(entry.blocks)


def _bullets_are_items(listing: Listing, section: Section) -> bool:
    """Bullets below a heading are items if they are set up as such (bold leads, numbers, a named pass), or stand there alone."""
    if section.level == 0:
        return len(listing.entries) >= 2 and all(_own_pass(entry) for entry in listing.entries)
    leads = sum(1 for entry in listing.entries if entry.lead or re.match(r"\d+[.\-]\d+", entry.text))
    passes = sum(1 for entry in listing.entries if _own_pass(entry))
    if leads * 2 >= len(listing.entries) or passes:
        return True
    prose = [block for block in section.blocks if isinstance(block, Paragraph)]
    return len(prose) <= 1 and len(listing.entries) >= 2 and not any(block.lead == block.text for block in prose)


def _own_pass(entry: Entry) -> bool:
    inner = [e.text for b in entry.blocks if isinstance(b, Listing) for e in b.entries]
    inner += [b.text for b in entry.blocks if isinstance(b, Paragraph)]
    said = ((labelled(text) or ("", ""))[0] in ("pass", "fail") or _SAYS_WHEN.match(text) for text in inner)
    return any(said) or bool(_INLINE_PASS.search(entry.text))


#: "… *Pass:* …" in the middle of a line.
_INLINE_PASS = pattern(
    r"(?:^|[\s(.])((?:Pass(?:es)?(?: criteri(?:a|on)| when| if)?|Expected(?: result)?|Accept(?:ance)?|Fails?(?: if| when)?"
    r"|통과(?: 기준| 조건)?|합격 기준|기대 결과|판정 기준))\s*[:：]\s*",
    re.IGNORECASE,
)


def _split_inline(text: str) -> tuple[str, list[tuple[Part, str]]]:
    """("title", [("pass", …)]) of "title Pass: …"."""
    pieces = _INLINE_PASS.split(text)
    found: list[tuple[Part, str]] = []
    for label, rest in zip(pieces[1::2], pieces[2::2], strict=True):
        found.append(("fail" if re.match(r"fail", label, re.IGNORECASE) else "pass", rest.strip()))
    return pieces[0].rstrip(" -–—(:").lstrip(), found


def _entry_items(entry: Entry, headings: list[str]) -> Iterator[Draft]:
    children = [
        child
        for block in entry.blocks
        if isinstance(block, Listing)
        for child in block.entries
        if child.checked is not None
    ]
    if len(children) >= 2 and not _ONE_OF.search(entry.text):
        yield from _children(entry, headings, entry.text)
        return
    title, named = _split_inline(entry.text)
    title, rest = _first_sentence(title or entry.text, entry.lead)
    parts = _Parts(title=title)
    for part, text in [("how", rest), *named]:
        parts.put(part, [text])
    _gather(parts, entry.blocks)
    yield parts.draft(headings)


def _first_sentence(text: str, lead: str) -> tuple[str, str]:
    """What an item is called and the rest of what it says: a bold sentence, else the first sentence if it is long enough."""
    if lead.endswith((".", "!", "?")) and len(lead) >= 8 and text.startswith(lead):
        return lead, text.removeprefix(lead).strip()
    for match in re.finditer(r"(?<=[.!?])\s+(?=\S)", text):
        if match.start() >= 24 and not re.search(
            r"(?:\be\.g|\bi\.e|\bvs|\betc|\bapprox|예|\d)\.$", text[: match.start()]
        ):
            return text[: match.start()], text[match.end() :]
    rest = text.removeprefix(lead) if lead else ""
    if re.match(r"\s*[:：–—-]\s*\S", rest):
        return text, rest.strip(" :：–—-")
    return text, ""


def _children(entry: Entry, headings: list[str], prefix: str) -> Iterator[Draft]:
    """Boxes below a box: each is an item, and carries what its parent says."""
    shown = _clean_title(prefix)
    for block in entry.blocks:
        if isinstance(block, Listing):
            for child in block.entries:
                for draft in _entry_items(child, headings):
                    yield replace(draft, title=f"{shown}: {draft.title}")


def _gather(parts: _Parts, blocks: Iterable[Block]) -> None:
    """What stands below an item: labelled parts go where they belong, everything else is a step."""
    part: Part = "how"
    for block in blocks:
        if isinstance(block, Paragraph):
            part = _label_or_text(parts, block, part)
        elif isinstance(block, Listing):
            for entry in block.entries:
                _gather_entry(parts, entry, part)
        elif isinstance(block, Table):
            _gather_table(parts, block, part)
        elif isinstance(block, Code):
            parts.add_code(block)


_SAYS_WHEN = pattern(
    r"(?:fails?|pass(?:es)?|acceptable|accept|reject) (?:if|when|only)\b|(?:실패|통과|합격)(?:이다|한다)? ?(?:조건|기준)",
    re.IGNORECASE,
)


def _gather_entry(parts: _Parts, entry: Entry, part: Part) -> None:
    found = labelled(entry.text)
    if found is not None:
        own, rest = found
        parts.put(own, [rest])
        part = own
    elif _SAYS_WHEN.match(entry.text):
        parts.passes.append(entry.text)
    else:
        text, named = _split_inline(entry.text)
        parts.put(part, [text])
        for own, rest in named:
            parts.put(own, [rest])
    _gather_below(parts, entry.blocks, part)


def _gather_below(parts: _Parts, blocks: Iterable[Block], part: Part) -> None:
    for block in blocks:
        if isinstance(block, Listing):
            for entry in block.entries:
                _gather_entry(parts, entry, part)
        else:
            _gather(parts, [block])


def _label_or_text(parts: _Parts, paragraph: Paragraph, part: Part) -> Part:
    """A paragraph that is only a label opens that part; one that starts with a label fills it; any other is text of the open one."""
    if (alone := part_of(paragraph.text, prefer=("pass", "how", "why"))) is not None and len(paragraph.text) <= 60:
        return alone if alone in ("why", "how", "pass", "fail", "commands") else part
    lead = part_of(paragraph.lead, prefer=("pass", "how", "why")) if paragraph.lead else None
    if lead in ("why", "how", "pass", "fail", "commands"):
        parts.put(lead, [paragraph.text.removeprefix(paragraph.lead).strip(" :：")])
        return lead
    if (found := labelled(paragraph.text)) is not None:
        parts.put(found[0], [found[1]])
        return found[0] if not found[1] else part
    if _SAYS_WHEN.match(paragraph.text):
        parts.passes.append(paragraph.text)
        return part
    text, named = _split_inline(paragraph.text)
    parts.put(part, [text])
    for own, rest in named:
        parts.put(own, [rest])
    return part


def _labelled_section(section: Section) -> _Parts | None:
    """A section whose paragraphs or sub-headings are "Why", "How", "Pass criteria" is one item; None if it is not."""
    if not section.title or part_of(section.title, prefer=("pass", "how", "why")) is not None:
        return None
    own = _labels_in(section.blocks)
    below = {part_of(s.title, prefer=("pass", "how", "why")) for s in section.sections}
    if not ({"pass", "fail"} & (own | below) and {"how", "commands", "why"} & (own | below)):
        return None
    parts = _Parts(title=section.title)
    _gather(parts, section.blocks)
    for inner in section.sections:
        part = part_of(inner.title, prefer=("pass", "how", "why"))
        _gather(parts, [Paragraph(inner.title, inner.title), *inner.blocks] if part else inner.blocks)
    return parts


def _labels_in(blocks: Iterable[Block]) -> set[Part | None]:
    found: set[Part | None] = set()
    for block in blocks:
        if isinstance(block, Paragraph):
            found.add(part_of(block.text, prefer=("pass", "how", "why")) if len(block.text) <= 60 else None)
            found.add(part_of(block.lead, prefer=("pass", "how", "why")) if block.lead else None)
            found.add((labelled(block.text) or (None, ""))[0])
        elif isinstance(block, Listing):
            found |= {(labelled(entry.text) or (None, ""))[0] for entry in block.entries}
    return found


def _whole_section(section: Section) -> _Parts | None:
    """A section of prose is one item if its heading says what it is about."""
    if section.level == 0 or not section.blocks or part_of(section.title) is not None:
        return None
    numbered = re.match(r"\s*(?:step|단계)?\s*\d", section.title, re.IGNORECASE)
    if not numbered and topic_of(section.title, []) == "other":
        return None
    parts = _Parts(title=section.title)
    _gather(parts, section.blocks)
    return parts if parts.steps or parts.passes or parts.commands else None


# --- tables ------------------------------------------------------------------------------------------------------------


def _columns(table: Table) -> list[Part | None]:
    """What each column holds. The first one that is no number names the item; a later one that could name it says how."""
    columns = [part_of(header, prefer=("id", "pass", "fail", "title")) for header in table.headers]
    for at in range(len(columns)):
        cells = [row[at] for row in table.rows if at < len(row) and row[at].strip()]
        if (
            cells
            and columns[at] in ("title", None)
            and all(_ID.fullmatch(cell.strip()) for cell in cells)
            and "id" not in columns
        ):
            columns[at] = "id"
    first = next((at for at, column in enumerate(columns) if column != "id"), None)
    for at, column in enumerate(columns):
        if column in ("title", "how") and at == first:
            columns[at] = "title"
        elif column == "title":
            columns[at] = None if columns[first or 0] == "title" else "title"
    return columns


def _is_item_table(table: Table) -> bool:
    """Rows are items if a column says what is expected, how to verify, or who signs."""
    columns = _columns(table)
    return len(table.headers) >= 2 and bool({"pass", "fail", "how", "owner"} & set(columns[1:]))


def _rows(table: Table, headings: list[str], context: Iterable[str]) -> Iterator[Draft]:
    if not _is_item_table(table):
        return
    columns = _columns(table)
    above = [text for text in context if text] or headings[-1:]
    for row in _without_ditto(table.rows):
        parts = _row(table.headers, columns, row)
        if parts.title and (parts.passes or parts.steps or "owner" in columns):
            yield parts.draft(headings, above)


def _without_ditto(rows: list[list[str]]) -> Iterator[list[str]]:
    """The rows with ditto marks replaced by what stands above them."""
    before: list[str] = []
    for row in rows:
        before = [
            above if cell.strip() in ("〃", "″", '"', "상동", "ditto") else cell
            for cell, above in zip(row, before or row, strict=False)
        ]
        yield before


def _row(headers: list[str], columns: list[Part | None], row: list[str]) -> _Parts:
    parts = _Parts()
    number, rest = "", []
    for header, column, cell in zip(headers, columns, row, strict=False):
        cell = cell.strip()
        if not cell or cell in ("–", "-", "☐"):
            continue
        if column == "id":
            number = cell
        elif column is None or (column == "title" and parts.title):
            rest.append(f"{header} {cell}".strip())
        else:
            parts.put(column, [cell])
    if not parts.title:
        parts.title = ", ".join(rest)
        parts.steps += rest if not parts.steps else []
    else:
        parts.steps += rest
    if not parts.title and parts.passes:
        parts.title = parts.passes[0]
    if number and parts.title:
        parts.title = f"{number}: {parts.title}"
    return parts


def _gather_table(parts: _Parts, table: Table, part: Part) -> None:
    """A table below an item: cases with what is expected of each, or rows of the part that is open."""
    columns = _columns(table)
    if part != "how" or not {"pass", "fail"} & set(columns):
        parts.put(part, _row_texts(table))
        return
    for row in _without_ditto(table.rows):
        case = _row(table.headers, columns, row)
        if case.title:
            parts.steps.append(case.title)
            parts.passes += [f"{case.title.split(':')[0]}: {text}" for text in case.passes]


def _row_texts(table: Table) -> Iterator[str]:
    """Each row in one line: "Case A, Prompt tokens 1000: Normal answer"."""
    for row in table.rows:
        cells = [f"{header} {cell}".strip() for header, cell in zip(table.headers, row, strict=False) if cell.strip()]
        if cells:
            yield ", ".join(cells)
