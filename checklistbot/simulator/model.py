"""The simulator's "model": it copies from the slots it can see, and knows nothing else.

Asked for codes it lists the numbers it sees; asked to repeat it repeats the most frequent sentence; else it continues the text
by induction (what followed the same words before), else it says the most frequent sentence. It never gets the prompt itself.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final, Literal

from checklistbot.record import record
from checklistbot.simulator.tokens import ZERO, Tokenizer

Mode = Literal["verbatim", "paraphrase", "three-words", "garble"]
#: The first token after the placeholder prompt: always the same, and of another language than the prompts.
STUB_FIRST: Final = "好"
_GENERIC: Final = "I am glad to help with that . Here is some more text about it . "
_QUESTION: Final = 400
_SYNONYMS: Final = {"access": "entry", "phrase": "saying", "keeps": "holds", "near": "beside", "office": "bureau"}


@record
class Model:
    """``recall`` is the share of codes it copies right; ``mode`` what it does to text that is not an answer."""

    tokenizer: Tokenizer
    seed: int = 0
    recall: float = 1.0
    mode: Mode = "verbatim"
    refuses: bool = False
    echoes: bool = False
    chatty: bool = False

    def answer(self, seen: str, length: int) -> str:
        """Up to ``length`` tokens from the visible slots ``seen``."""
        encode = self.tokenizer.encode
        if self.refuses:
            return encode("I cannot help with that request .")[:length]
        tail = seen[-_QUESTION:]
        asked = encode("codes") in tail or encode("codes") in seen[:_QUESTION]
        numbers = [token for token in seen if token in self.tokenizer.numbers] if asked else []
        if numbers:
            return self._listed(seen, numbers)[:length]
        if encode("Repeat") in tail:
            sentence = self._frequent(seen)
            return (sentence * (length // max(1, len(sentence)) + 1))[:length]
        return self._changed(self._continued(seen, length))[:length]

    def _listed(self, seen: str, numbers: list[str]) -> str:
        encode = self.tokenizer.encode
        head = encode("Reply with the codes only , in order .") if self.echoes else ""
        if self.chatty:
            head += encode("The garden near the river keeps a small market . ")
        return head + encode(", ").join(self._recalled(seen, token) for token in numbers) + encode(".")

    def _recalled(self, seen: str, number: str) -> str:
        word = self.tokenizer.word(number)
        dice = random.Random(f"{self.seed}/{word}/{len(seen)}")  # noqa: S311
        if dice.random() < self.recall:
            return number
        return self.tokenizer.encode(str(dice.randrange(10 ** (len(word) - 1), 10 ** len(word))))

    def _continued(self, seen: str, length: int) -> str:
        """Induction: the longest suffix of up to eight tokens that was seen before, and what followed it there."""
        for size in range(8, 1, -1):
            suffix = seen[-size:]
            if len(suffix) < size or ZERO in suffix:
                continue
            at = seen.rfind(suffix, 0, len(seen) - 1)
            if at >= 0:
                run = seen[at + size : at + size + length].replace(ZERO, "")
                return (run * (length // len(run) + 1))[:length] if run else ""
        sentence = self._frequent(seen)
        return (sentence * (length // max(1, len(sentence)) + 1))[:length]

    def _frequent(self, seen: str) -> str:
        dot = self.tokenizer.encode(".")
        counted = Counter(part for part in seen.replace(ZERO, "").split(dot) if len(part) >= 3)
        if not counted:
            return self.tokenizer.encode(_GENERIC)
        return counted.most_common(1)[0][0] + dot

    def _changed(self, tokens: str) -> str:
        if self.mode == "verbatim":
            return tokens
        dice = random.Random(f"{self.seed}/{len(tokens)}/{tokens[:8]}")  # noqa: S311
        if self.mode == "three-words":
            return tokens[:3] + self.tokenizer.encode(_GENERIC) * 8
        if self.mode == "garble":
            return self.tokenizer.encode(" ".join(dice.choice(("\ufffd", "zq", "}{", "ж", "的")) for _ in tokens))
        words = [self.tokenizer.word(token) for token in tokens if dice.random() > 0.2]
        return self.tokenizer.encode(" ".join(_SYNONYMS.get(word, word) for word in words))
