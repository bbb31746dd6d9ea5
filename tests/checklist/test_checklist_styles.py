"""Checklists as chats write them, in styles the corpus does not have: every item arrives with title, how to verify and pass criterion."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from checklistbot.checklist import answer


@dataclass(frozen=True)
class Style:
    """An answer, how many items it has, and words that must stand in a title."""

    text: str
    items: int
    titles: tuple[str, ...]


STYLES = {
    "headed prose, English": Style(
        """\
Here's a pre-deploy checklist for your deployment.

## 1. KV pool vs. context length

Read `max_total_num_tokens` from the start-up log of each prefill worker and compare it with the context length you advertise.

**How to verify:** run `grep max_total_num_tokens prefill.log` on every rank.

**Pass criterion:** the smallest number on any rank is at least 131,072.

## 2. Engine version

The bug is fixed in 0.5.22, so anything older is exposed.

**How to verify:** `curl -s $PREFILL_URL/server_info | jq .version`

**Pass criterion:** both roles report 0.5.22 or later.
""",
        2,
        ("KV pool", "Engine version"),
    ),
    "nested bullets": Style(
        """\
# Pre-deployment checklist

- **Pool fits the context**
  - *How:* compare `max_total_num_tokens` with `--context-length`
  - *Pass:* pool >= context + one page
- **Over-limit prompt is refused**
  - *How:*
    - send a prompt of first-rejected length
    - read the body, not the status
  - *Pass:* HTTP 400 and no generated text
- **Canaries stay home**
  - *How:* plant eight canaries, probe three times
  - *Pass:* no canary appears in any other reply
""",
        3,
        ("Pool fits", "Over-limit", "Canaries"),
    ),
    "table of five columns": Style(
        """\
## Deployment gate

| # | Check | How to verify | Pass criteria | Owner |
|---|-------|---------------|---------------|-------|
| 1 | Pool covers context | `grep max_total_num_tokens prefill.log` | ≥ 131,072 on every rank | SRE |
| 2 | Version is fixed | `curl $URL/server_info` | ≥ 0.5.22 | Release |
| 3 | Boundary prompts | Send L-1, L, L+1 and read the text | Own needles or a 4xx | QA |
| 4 | Tenancy decided | Review the tenant list with security | Written sign-off | Security |
""",
        4,
        ("Pool covers", "Version", "Boundary", "Tenancy"),
    ),
    "table of six columns, Korean": Style(
        """\
## 배포 전 체크리스트

| 번호 | 점검 항목 | 왜 필요한가 | 확인 방법 | 통과 기준 | 담당 |
|:---:|---|---|---|---|---|
| 1 | KV 풀 크기 | 풀이 작으면 거부된 요청이 샌다 | 기동 로그에서 `max_total_num_tokens` 확인 | 컨텍스트 길이 이상 | SRE |
| 2 | 엔진 버전 | 0.5.22에서 고쳐졌다 | `/server_info`의 version 확인 | 0.5.22 이상 | 릴리스 |
| 3 | 카나리 유출 | 다른 사람의 글이 섞일 수 있다 | 카나리 8개를 심고 3번 조회 | 카나리가 한 번도 나오지 않음 | QA |
""",
        3,
        ("KV 풀 크기", "엔진 버전", "카나리 유출"),
    ),
    "table of four columns in two sections, Korean": Style(
        """\
### 1. 용량

| 항목 | 확인 방법 | 통과 기준 | 심각도 |
|---|---|---|---|
| 풀과 컨텍스트 비교 | 로그에서 두 값을 읽는다 | 풀 ≥ 컨텍스트 | 필수 |
| 페이지 크기 | `--page-size`를 확인한다 | 양쪽이 같다 | 권장 |

### 2. 격리

| 항목 | 확인 방법 | 통과 기준 | 심각도 |
|---|---|---|---|
| 테넌트 분리 | 테넌트 목록을 보안팀과 검토 | 전용 풀 또는 승인 | 필수 |
""",
        3,
        ("풀과 컨텍스트", "페이지 크기", "테넌트 분리"),
    ),
    "numbered sections with emoji": Style(
        """\
# 🚀 Pre-Deploy Checklist

## 1️⃣ Capacity 📦

✅ **KV pool ≥ context length**
- How: `grep max_total_num_tokens prefill.log`
- Pass: ≥ 131,072

## 2️⃣ Content 🔍

✅ **Limit-length request**
- How: send a 131,066-token prompt with needles
- Pass: 4xx, or all needles returned

## 3️⃣ Isolation 🔒

✅ **Canary leak test**
- How: plant 8 canaries in other requests
- Pass: zero canaries in replies
""",
        3,
        ("KV pool", "Limit-length", "Canary"),
    ),
    "numbered sections with emoji, Korean": Style(
        """\
# ✅ 배포 전 점검표

### 1️⃣ 🧮 KV 풀과 컨텍스트 길이
- **확인 방법**: 각 랭크의 기동 로그에서 `max_total_num_tokens`를 읽습니다.
- **통과 기준**: 모든 랭크에서 131,072 이상입니다.

### 2️⃣ 🧪 한계 길이 요청
- **확인 방법**: 첫 거부 길이의 프롬프트를 보내고 응답 본문을 읽습니다.
- **통과 기준**: 4xx이거나 본문에 자기 코드만 있습니다.

### 3️⃣ 🕵️ 카나리 유출 시험
- **확인 방법**: 다른 요청에 카나리를 심고 응답에서 찾습니다.
- **통과 기준**: 카나리가 하나도 나오지 않습니다.
""",
        3,
        ("KV 풀", "한계 길이", "카나리"),
    ),
    "code fences in items": Style(
        """\
1. **Check the pool on every prefill rank**

   ```bash
   grep -oE 'max_total_num_tokens=[0-9]+' prefill.log
   ```

   Pass if every number is at least 131,072.

2. **Check the version**

   ```bash
   curl -s "$PREFILL_URL/server_info" | jq -r .version
   ```

   Pass if it prints 0.5.22 or later.

3. **Send an over-limit prompt**

   ```bash
   checklistbot probe "$ROUTER_URL" --profile smoke
   ```

   Pass if the answer is an error and holds no text.
""",
        3,
        ("Check the pool", "Check the version", "over-limit"),
    ),
    "YAML": Style(
        """\
Sure! Here is the checklist as YAML:

```yaml
checklist:
  - title: KV pool covers the context
    severity: required
    steps:
      - Read max_total_num_tokens from the log
      - Compare it with 131072
    pass_when: pool >= context
    owner: SRE
  - title: Engine at 0.5.22 or later
    severity: required
    steps:
      - Ask /server_info for the version
    pass_when: version >= 0.5.22
    owner: Release
```
""",
        2,
        ("KV pool", "Engine at"),
    ),
    "ballot boxes": Style(
        """\
Pre-deploy checklist

☐ Pool is at least the context
   How to verify: read max_total_num_tokens in the log
   Pass: at least 131,072 on each rank

☐ Over-limit prompts are refused
   How to verify: send 131,066 tokens and read the body
   Pass: HTTP 400 with the limit in the message

☐ No canary leaks
   How to verify: plant eight canaries and search replies
   Pass: none found
""",
        3,
        ("Pool is at least", "Over-limit", "No canary"),
    ),
    "ballot boxes in bullets, Korean": Style(
        """\
## 배포 전 확인

- ☐ **KV 풀이 컨텍스트보다 큰가**
  - 확인: 기동 로그의 `max_total_num_tokens`
  - 통과: 131,072 이상
- ☐ **엔진 버전이 0.5.22 이상인가**
  - 확인: `/server_info`의 `version`
  - 통과: 두 역할 모두 0.5.22 이상
""",
        2,
        ("KV 풀", "엔진 버전"),
    ),
    "task list with arrows": Style(
        """\
### Before deploy

- [ ] Compare pool with context → `grep max_total_num_tokens prefill.log` → **Pass:** ≥ 131,072
- [ ] Confirm version → `curl $URL/server_info` → **Pass:** ≥ 0.5.22
- [ ] Canary run → plant 8, probe 3 → **Pass:** no foreign canary
""",
        3,
        ("Compare pool", "Confirm version", "Canary run"),
    ),
    "task list with labels inside one line, Korean": Style(
        """\
- [ ] **풀 크기 확인** — 확인 방법: 로그의 `max_total_num_tokens`를 읽는다. 통과 기준: 131,072 이상.
- [ ] **버전 확인** — 확인 방법: `/server_info`를 조회한다. 통과 기준: 0.5.22 이상.
- [ ] **격리 확인** — 확인 방법: 테넌트 목록을 검토한다. 통과 기준: 전용 풀이거나 승인됨.
""",
        3,
        ("풀 크기", "버전 확인", "격리 확인"),
    ),
    "check marks as bullets": Style(
        """\
**Gate 1 – capacity**

✅ Pool ≥ context: read `max_total_num_tokens`; pass if ≥ 131,072.
✅ Page size equal on both roles: read `--page-size`; pass if equal.

**Gate 2 – content**

✅ Over-limit prompt refused: send 131,066 tokens; pass if 4xx and no text.
""",
        3,
        ("Pool", "Page size", "Over-limit"),
    ),
    "definition style with bold sections": Style(
        """\
**1. Pool against context (required)**
Why: a smaller pool leaks on 0.5.19.
Verify: `grep max_total_num_tokens prefill.log`
Pass: ≥ 131,072 on every rank.

**2. Limit-length request (required)**
Why: status 200 proves nothing.
Verify: send 131,065, 131,066 and 131,067 tokens with needles.
Pass: own needles or a 4xx.

**3. Canary (required)**
Why: stale pages hold other tenants' text.
Verify: plant eight, probe three.
Pass: none seen.
""",
        3,
        ("Pool against", "Limit-length", "Canary"),
    ),
}


@pytest.mark.parametrize("name", STYLES)
def test_every_item_of_a_style_arrives_whole(name: str) -> None:
    style = STYLES[name]
    parsed = answer.parse(style.text)
    assert parsed.kind == "ok", parsed
    whole = [draft for draft in parsed.drafts if draft.title and (draft.steps or draft.commands) and draft.pass_when]
    assert [draft.title for draft in parsed.drafts] == [draft.title for draft in whole], parsed.drafts
    assert len(whole) == style.items, [draft.title for draft in whole]
    for words, draft in zip(style.titles, whole, strict=True):
        assert words in draft.title
