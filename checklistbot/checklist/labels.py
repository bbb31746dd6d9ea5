"""What people call the parts of a checklist item, in English and Korean: for answers that follow no schema."""

from __future__ import annotations

import re
from typing import Final, Literal

from checklistbot.lazy import pattern as lazy_pattern
from checklistbot.model import Severity, Topic, When

Part = Literal["why", "how", "pass", "fail", "owner", "when", "severity", "commands", "title", "id"]

#: Whole words of a label, a table header, a sub-heading or a JSON key (lower case, spaces for _ and -).
_PARTS: Final[tuple[tuple[Part, str], ...]] = (
    ("id", r"#|no\.?|nr\.?|id|번호|순번"),
    (
        "why",
        r"why( it matters)?|reason|rationale|background|risk|purpose|motivation|이유|배경|근거|목적|왜( 필요한가)?|위험",
    ),
    ("fail", r"fails?( if| when)?|failure( condition)?|no go( if)?|실패( 조건| 기준)?|불합격( 조건)?"),
    (
        "pass",
        r"pass(es)?( criteri(a|on)| when| if| condition| gate)?|passing criteri(a|on)|expect(ed)?( results?| outcomes?| behaviou?r)?"
        r"|acceptance( criteri(a|on))?|acceptable outcomes?|accept(ed)? (if|when)|criteri(a|on)|success( criteri(a|on)| condition)?|done when"
        r"|definition of done|outcome|required result|what good looks like|good"
        r"|통과( 기준| 조건| 여부)?|합격( 기준| 조건)?|판정( 기준| 조건)?|기준|기대( 결과| 동작| 값)?|기대값|성공( 기준| 조건)?|예상( 결과| 동작)?|완료 (기준|조건)",
    ),
    (
        "how",
        r"how( to( verify| check| test| do it)?)?|verif(y|ication)( method| steps)?|steps?|procedure|method|checks?|actions?|set ?up|seed|probes?"
        r"( and expected results)?|instructions?|test( method| steps| procedure)?|what to do|do|validation|implementation|evidence|measure(ment)?"
        r"|확인( 방법| 절차)?|검증( 방법| 절차)?|점검( 방법| 절차)|방법|절차|준비|실행( 방법)?|테스트( 방법| 절차)|시험( 방법| 절차)|단계|측정( 방법)?|수행( 방법)?",
    ),
    ("commands", r"commands?|cmd|run|script|명령어?|실행 명령어?"),
    ("owner", r"owner|who|responsible|assignee|role|담당(자)?|책임(자)?"),
    ("when", r"when|phase|stage|timing|시점|언제"),
    ("severity", r"severity|priority|level|importance|심각도|중요도|우선순위|등급"),
    (
        "title",
        r"title|tasks?|name|checks?|check ?points?|items?|case|test( case)?|scenario|gate|field|what( to check)?|summary|description|requirement"
        r"|question|topic|condition|item to check|제목|작업|점검( 항목| 사항| 내용)?|항목|확인 (항목|사항)|체크( 항목| 포인트)?|사례|시험|테스트( 항목| 케이스)?|케이스"
        r"|시나리오|게이트|필드|비교|조건|내용|요구 ?사항|구성",
    ),
)
_PART = tuple((part, re.compile(words, re.IGNORECASE)) for part, words in _PARTS)
_INLINE = lazy_pattern(r"^([^:：.]{1,40})\s*[:：]\s*(.*)$", re.DOTALL)


def part_of(label: str, *, prefer: tuple[Part, ...] = ()) -> Part | None:
    """The part that a label names as a whole, None if it is no label. ``prefer`` goes first where a word can be two ("checks")."""
    words = re.sub(r"[_\-]+", " ", re.sub(r"[*`()\[\]]|[:：.]\s*$", " ", label))
    words = " ".join(re.sub(r"^\s*(?:\d+(?:[.\-]\d+)*[.)]?\s+)", "", words).split()).strip(" .")
    ordered = sorted(_PART, key=lambda entry: entry[0] not in prefer)
    return next((part for part, pattern in ordered if pattern.fullmatch(words)), None)


def labelled(text: str) -> tuple[Part, str] | None:
    """("pass", rest) for "Pass: rest"; None where the text does not start with a label and a colon."""
    match = _INLINE.match(text)
    if not match:
        return None
    part = part_of(match[1], prefer=("pass", "fail", "why", "how"))
    return (
        (part, match[2].strip())
        if part in ("pass", "fail", "why", "how", "commands", "owner", "when", "severity")
        else None
    )


# --- topics ------------------------------------------------------------------------------------------------------------

_ASIDE = lazy_pattern(
    r"monitor|metrics|rollout|roll out|roll ?back|kill switch|observab|operat|alert|watch|test quality|테스트 자체|모니터링|운영|배포 직후|롤백|경보|관찰",
    re.IGNORECASE,
)
_TOPICS: Final[tuple[tuple[Topic, re.Pattern[str]], ...]] = (
    (
        "canary-leak",
        re.compile(r"canar|leak|foreign|cross.?(?:request|tenant|talk)|카나리|유출|누출|누설|다른 요청", re.IGNORECASE),
    ),
    (
        "limit-length-content",
        re.compile(
            r"limit.?length|boundar|content|needle|over.?limit|at the limit|near.?limit|reject|admission|prompt_tokens|한계|경계|응답 내용|거부|니들|초과 요청",
            re.IGNORECASE,
        ),
    ),
    ("isolation", re.compile(r"isolat|tenan|dedicated|cache_salt|격리|테넌|전용|고객별", re.IGNORECASE)),
    (
        "pool-against-context",
        re.compile(
            r"pool|context|capacity|sizing|max_total_num_tokens|max.model.len|mem.fraction|풀|컨텍스트|용량|메모리",
            re.IGNORECASE,
        ),
    ),
    (
        "engine-version",
        re.compile(
            r"version|upgrade|image digest|release|pin everything|버전|업그레이드|이미지 다이제스트", re.IGNORECASE
        ),
    ),
)


def topic_of(title: str, headings: list[str]) -> Topic:
    """The topic of an item: its nearest heading decides, then its own words."""
    for text in (*reversed([heading for heading in headings if heading]), title):
        if text is not title and _ASIDE.search(text):
            return "other"
        for topic, pattern in _TOPICS:
            if pattern.search(text):
                return topic
    return "other"


# --- words for the other parts -------------------------------------------------------------------------------------------


def severity_of(text: str) -> Severity:
    """ "recommended" only where the text says so; whatever else it says is required."""
    soft = re.search(r"recommend|optional|nice|low|medium|minor|info|권장|선택|낮음|보통", text, re.IGNORECASE)
    return "recommended" if soft else "required"


def when_of(text: str, headings: list[str]) -> When:
    """When an item is done: what it says itself, else what its headings say."""
    for words in (text, *reversed(headings)):
        if re.search(r"before.?merge|pre.?merge|머지 ?전|병합 ?전", words, re.IGNORECASE):
            return "before-merge"
        if re.search(
            r"after.?(?:deploy|release)|post.?deploy|rollout|roll out|monitor|production|배포 (?:직)?후|모니터링|운영",
            words,
            re.IGNORECASE,
        ):
            return "after-deploy"
    return "before-deploy"


#: Sections that sum up, decide or explain; their lists are no items.
NOT_ITEMS = lazy_pattern(
    r"summary|overview|interpretation|introduction|conclusion|no.?go conditions|go\s*/\s*no.?go|things to know|notes?\b|caveat|reference|next steps"
    r"|요약|개요|결론|배포 판정|최종 (?:배포 )?판정|참고|주의|다음 단계|해석",
    re.IGNORECASE,
)
