"""The built-in checklist's own words in both languages: ``templates/checklist.{en,ko}.yml``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from checklistbot import resources

Language = Literal["en", "ko"]


def load_yaml(text: str) -> Any:
    """A YAML document of ours, by the fast loader where libyaml is there."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, Loader=loader)  # noqa: S506  (a safe loader in both cases)


class Words:
    """The catalogue of one language. A key is "topic.name"; what it names in braces must be given."""

    def __init__(self, language: Language) -> None:
        self.language: Language = language
        self._texts: Mapping[str, Any] = load_yaml(resources.text("templates", f"checklist.{language}.yml"))

    def __call__(self, key: str, /, **values: object) -> str:
        """The text of ``key`` with its names filled; numbers get thousands separators. Raises KeyError for an unknown key or name."""
        return str(self.entry(key)).format_map({name: _shown(value) for name, value in values.items()})

    def entry(self, key: str) -> Any:
        """What stands under ``key`` as it is: a text, or a mapping of texts."""
        found: Any = self._texts
        for part in key.split("."):
            found = found[part]
        return found


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


@cache
def words(language: Language) -> Words:
    """The catalogue of that language."""
    return Words(language)
