"""Pasted answers as chats write them, in this project's own words: boxes, headed prose, bullets, tables, JSON."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from checklistbot import checklist
from checklistbot.checklist import answer
from checklistbot.model import Check, Facts

BOXES = """\
Here is what I would check before this goes live.

| Fact | Value |
|---|---|
| context | 65,536 |

## 1. KV pool

- [ ] **Read the pool from the running server.** The manifest only says what was wished for.
  - `curl -s http://$PREFILL:30000/server_info | jq .max_total_num_tokens`
  - Pass: pool >= context + 64
- [ ] The smallest rank decides.
- [ ] If it does not fit, do one of these
  - [ ] shorten the context
  - [ ] add memory

## 2. Prompts at the limit

- [ ] Send each of these lengths, streaming too

  | Case | Prompt | Expected |
  |---|---|---|
  | A | 65,000 | all codes |
  | B | 65,530 | error |

- [ ] **Refused prompts**
  - [ ] The body names the limit
  - [ ] Not one token was generated

## 3. Canary test

- [x] Every filler carries its own phrase.
- [ ] Nobody else's phrase appears in any reply.
"""

KOREAN_TABLES = """\
# 배포 전 점검표

아래 표를 순서대로 채우세요.

## KV 풀 비교

| 번호 | 점검 항목 | 확인 방법 | 통과 기준 |
|---|---|---|---|
| 1-1 | 기동 로그의 풀 크기를 읽었는가 | `max_total_num_tokens` 검색 | 문서와 같음 |
| 1-2 | 가장 작은 랭크를 썼는가 | 랭크별 로그 비교 | 최솟값 사용 |

## 한계 길이 응답

| 사례 | 입력 토큰 | 기대 결과 |
|---|---|---|
| T1 | 65,000 | 코드 8개 모두 일치 |
| T2 | 65,530 | 거부 |
| T3 | 〃 | 스트리밍도 거부 |

## 카나리

### 방법

1. 채움 요청 8개를 보냅니다.
2. 한계 길이 요청을 보냅니다.

### 통과 기준

- 남의 문구가 0건이다.
"""

PROSE = """\
Your numbers do not fit, so stop here first.

## 1. Give the pool room

**Why**
Nothing that cannot fit may be admitted.

**How to verify**
Read both numbers:

```bash
curl -s http://$HOST:8000/metrics | grep vllm:cache_config_info
```

**Pass criteria**
- The pool is at least the context.
- No override is set.

## 2. Look at the text of long answers

**Why**
A status code proves nothing.

**How to verify**
Plant codes and ask for them.

**Pass criteria**
- All codes come back.
"""

BULLETS = """\
# Pre-deploy checklist

## Pool and context

- **1.1 Read the live numbers.** They are computed at start-up. *Pass:* pool is at least the context.
- **1.2 Compare ranks.** Each rank has a pool of its own. *Pass:* the smallest one is used.

## Canary leak

- **2.1 Fill the pages.** Use eight tenants. *Pass:* every filler finished.
- **2.2 Search the replies.** Include errors. *Pass:* no foreign phrase.
"""

OTHER_JSON = {
    "title": "Checklist",
    "sections": [
        {
            "name": "KV pool against context",
            "items": [
                {
                    "id": "P1",
                    "task": "Read the pool",
                    "how": "start-up log",
                    "pass_criteria": "a number",
                    "severity": "critical",
                },
                {
                    "id": "P2",
                    "task": "Compare it",
                    "how": ["pool", "context"],
                    "pass_criteria": "pool >= context",
                    "input_tokens": [1, 2],
                },
            ],
        },
        {"name": "Canary", "checks": ["No foreign phrase in any reply", "The search finds a planted phrase"]},
    ],
}


def titles(text: str) -> list[str]:
    return [draft.title for draft in answer.parse(text).drafts]


def found(text: str, start: str) -> Any:
    return next(draft for draft in answer.parse(text).drafts if draft.title.startswith(start))


@pytest.mark.parametrize(
    "text",
    [
        BOXES,
        KOREAN_TABLES,
        PROSE,
        BULLETS,
        json.dumps(OTHER_JSON),
        f"Sure:\n\n```json\n{json.dumps(OTHER_JSON, indent=2)}\n```\n",
    ],
)
def test_every_item_has_a_title_a_way_to_verify_and_a_criterion(text: str) -> None:
    parsed = answer.parse(text)
    assert parsed.kind == "ok"
    for draft in parsed.drafts:
        assert draft.title
        assert draft.steps
        assert draft.pass_when


def test_boxes() -> None:
    assert titles(BOXES) == [
        "Read the pool from the running server.",
        "The smallest rank decides.",
        "If it does not fit, do one of these",
        "Send each of these lengths, streaming too",
        "Refused prompts: The body names the limit",
        "Refused prompts: Not one token was generated",
        "Every filler carries its own phrase.",
        "Nobody else's phrase appears in any reply.",
    ]
    first = found(BOXES, "Read the pool")
    assert first.commands == ("curl -s http://$PREFILL:30000/server_info | jq .max_total_num_tokens",)
    assert first.pass_when == "pool >= context + 64"
    assert first.topic == "pool-against-context"
    assert found(BOXES, "If it does").steps == ("shorten the context", "add memory")
    ladder = found(BOXES, "Send each")
    assert "B: Prompt 65,530" in ladder.steps
    assert "B: error" in ladder.pass_when
    assert found(BOXES, "Nobody").topic == "canary-leak"


def test_korean_tables_and_sub_headings() -> None:
    assert titles(KOREAN_TABLES) == [
        "기동 로그의 풀 크기를 읽었는가",
        "가장 작은 랭크를 썼는가",
        "T1: 입력 토큰 65,000",
        "T2: 입력 토큰 65,530",
        "T3: 입력 토큰 65,530",
        "카나리",
    ]
    first = found(KOREAN_TABLES, "기동 로그")
    assert (first.steps, first.pass_when) == (("max_total_num_tokens 검색",), "문서와 같음")
    whole = found(KOREAN_TABLES, "카나리")
    assert whole.steps == ("채움 요청 8개를 보냅니다.", "한계 길이 요청을 보냅니다.")
    assert whole.pass_when == "남의 문구가 0건이다."
    assert [draft.topic for draft in answer.parse(KOREAN_TABLES).drafts][2:] == ["limit-length-content"] * 3 + [
        "canary-leak"
    ]


def test_headed_prose() -> None:
    assert titles(PROSE) == ["Give the pool room", "Look at the text of long answers"]
    first = found(PROSE, "Give")
    assert first.why == "Nothing that cannot fit may be admitted."
    assert first.commands == ("curl -s http://$HOST:8000/metrics | grep vllm:cache_config_info",)
    assert first.pass_when == "The pool is at least the context. · No override is set."


def test_bullets_with_bold_leads() -> None:
    assert titles(BULLETS) == ["Read the live numbers.", "Compare ranks.", "Fill the pages.", "Search the replies."]
    assert found(BULLETS, "Compare").pass_when == "the smallest one is used."


def test_json_of_another_shape() -> None:
    text = json.dumps(OTHER_JSON)
    assert titles(text) == [
        "Read the pool",
        "Compare it",
        "No foreign phrase in any reply",
        "The search finds a planted phrase",
    ]
    second = found(text, "Compare")
    assert second.steps == ("pool", "context", "input tokens: 1, 2")
    assert (second.pass_when, second.topic) == ("pool >= context", "pool-against-context")
    assert found(text, "No foreign").topic == "canary-leak"


def test_our_own_form_comes_back_whole(facts: Facts, check: Check) -> None:
    ours = [
        {
            "topic": topic, "deployments": ["d1", "d2", "d3"], "severity": "required", "title": f"t {topic}", "why": "w", "steps": ["s"],
            "commands": [], "pass_when": "p", "owner": "SRE", "when": "before-deploy", "automation": None,
        }
        for topic in ("pool-against-context", "limit-length-content", "canary-leak", "engine-version", "isolation")
    ]  # fmt: skip
    for text in (
        json.dumps({"items": ours}),
        f"Here you are:\n```json\n{json.dumps({'items': ours}, indent=1)}\n```\nGood luck!",
    ):
        drafted, use = checklist.from_response(text, facts, check, language="en")
        assert (use.status, use.provider, drafted.origin) == ("ok", "response", "response")
        assert not [item for item in drafted.items if item.added]


def test_free_text_lands_on_the_role_it_names(facts: Facts, check: Check) -> None:
    text = (
        "## Pool\n\n- [ ] Compare the decode pool with the context.\n- [ ] Compare the prefill pool with the context.\n"
    )
    drafted, _ = checklist.from_response(text, facts, check, language="en")
    ids = {str(item.title): item.id for item in drafted.items}
    assert ids["Compare the decode pool with the context."] == "pool-against-context/prod/glm-5.3/decode"
    assert ids["Compare the prefill pool with the context."] == "pool-against-context/prod/glm-5.3/prefill"


def test_without_a_deployment_the_items_still_arrive(check: Check) -> None:
    drafted, use = checklist.from_response(BOXES, Facts(), check, language="en")
    assert use.status == "ok"
    assert len(drafted.items) == 8
    assert all(item.id.split("/")[1] == "none" for item in drafted.items)


# --- refused, cut, empty -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with testing for other users' data.\n\nYou could instead:\n\n- ask the vendor\n- read the docs\n- wait",
        "I can’t assist with that request.",
        "I am unable to provide this.",
        "죄송하지만 이 요청은 도와드릴 수 없습니다. 보안팀에 문의하세요.",
        "이런 내용은 제공할 수 없습니다.",
    ],
)
def test_a_refusal_is_one(text: str, facts: Facts, check: Check) -> None:
    assert answer.parse(text).kind == "refused"
    drafted, use = checklist.from_response(text, facts, check, language="ko")
    assert (drafted.origin, use.status) == ("builtin", "failed")
    assert (use.reason or "").startswith("모델이 응답을 거부했습니다")


def test_a_checklist_that_starts_politely_is_no_refusal() -> None:
    assert answer.parse("I'm sorry to hear about the incident. I can't see your cluster, but:\n\n" + BOXES).kind == "ok"


@pytest.mark.parametrize(
    "text",
    [
        BOXES[: BOXES.index("codes |")],
        BOXES + "\n## 4. Rollout\n",
        BOXES + "\n- [ ]",
        BOXES + "\n- [ ] Watch the `sglang:token_us",
        BOXES + "\n- [ ] Compare **both",
        BOXES + "\n```bash\ncurl -s",
        BOXES + "\n- [ ] Send the promp",
        KOREAN_TABLES
        + "- 대조 시험이 성립한다.\n- 검색기가 문구를 찾는다.\n- 텍스트를 남기지 않는다.\n- 대조 시험이 성립하고 한계를",
        PROSE + "\n## 3. Rollout\n\n**Why**\n",
        PROSE[: PROSE.rindex(" for them")],
        json.dumps(OTHER_JSON)[:-30],
        "```json\n" + json.dumps(OTHER_JSON, indent=1)[:-60],
    ],
)
def test_a_cut_answer_is_recognised_and_what_arrived_is_kept(text: str, facts: Facts, check: Check) -> None:
    parsed = answer.parse(text)
    assert parsed.kind == "truncated"
    assert parsed.drafts
    drafted, use = checklist.from_response(text, facts, check, language="en")
    assert (drafted.origin, use.status) == ("response", "failed")
    assert "cut off" in (use.reason or "")


def test_json_cut_anywhere_is_cut() -> None:
    text = json.dumps(OTHER_JSON, indent=1)
    for at in random.Random(3).sample(range(10, len(text) - 2), 40):
        assert answer.parse(text[:at]).kind == "truncated", text[:at][-20:]


@pytest.mark.parametrize(
    "text", ["", "  \n", "Sure!", "Thanks, have a nice day.", "```python\n" + "x = 1\n" * 40 + "```"]
)
def test_no_checklist_is_none(text: str, facts: Facts, check: Check) -> None:
    parsed = answer.parse(text)
    assert (parsed.kind, parsed.drafts) == ("empty", ())
    drafted, use = checklist.from_response(text, facts, check, language="en")
    assert (drafted.origin, use.status) == ("builtin", "failed")
