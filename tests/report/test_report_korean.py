"""Korean: one word for one thing, in everything that people read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
#: What we write → what we do not: two words for one thing read as two things.
ONE_WORD = {
    "거부": "거절",
    "한도 길이": "한계 길이",
    "테스트": "(?<![가-힣])시험(?![가-힣]*관)",
    "체크리스트": "점검표",
    "prefill": "프리필",
    "decode": "디코드",
    "릴리스": "배포본",
    "기동 로그": "시작 로그",
    "카나리": "카나리아",
    "유출": "누출",
    "레플리카": "복제본",
    "플레이스홀더": "자리표시자",
    "알 수 없음": "미상",
    "내장 체크리스트": "기본 체크리스트",
    "~하세요": "십시오",
}
#: These read other people's Korean, whose words are theirs.
FOREIGN = {"labels.py", "answer.py"}
READ = sorted(
    path
    for folder in ("checklistbot", "templates", "prompts", "docs/ko")
    for path in (TOP / folder).rglob("*")
    if path.suffix in {".py", ".yml", ".toml", ".j2", ".md"} and path.name not in FOREIGN
)


@pytest.mark.parametrize(("ours", "other"), ONE_WORD.items())
def test_one_word_for_one_thing(ours: str, other: str) -> None:
    found = [
        f"{path.relative_to(TOP)}:{number}: {other} → {ours}"
        for path in READ
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if re.search(other, line)
    ]
    assert not found
