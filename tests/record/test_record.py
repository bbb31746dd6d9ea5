"""``@record`` and ``@mutable_record`` behave as the dataclasses that they stand for."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from functools import cached_property

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checklistbot.record import mutable_record, record


@record
class Page:
    number: int
    owner: str = "nobody"
    words: tuple[str, ...] = dataclasses.field(default_factory=tuple)

    def full(self) -> bool:
        return bool(self.words)


@mutable_record
class Pool:
    pages: list[Page] = dataclasses.field(default_factory=list)
    free: int = 0


@given(st.integers(), st.text(), st.tuples(st.text(), st.text()))
def test_a_record_is_its_fields(number: int, owner: str, words: tuple[str, ...]) -> None:
    page = Page(number, words=words, owner=owner)
    assert (page.number, page.owner, page.words) == (number, owner, words)
    assert page == Page(number, owner, words)
    assert hash(page) == hash(Page(number, owner, words))
    assert page != Page(number + 1, owner, words)
    assert [field.name for field in dataclasses.fields(page)] == ["number", "owner", "words"]
    assert dataclasses.asdict(page) == {"number": number, "owner": owner, "words": words}
    assert dataclasses.replace(page, owner="x") == Page(number, "x", words)
    assert copy.copy(page) == copy.deepcopy(page) == pickle.loads(pickle.dumps(page)) == page


def test_defaults_are_made_for_each_object() -> None:
    assert Page(1) == Page(1, "nobody", ())
    assert repr(Page(1)) == "Page(number=1, owner='nobody', words=())"
    one, other = Pool(), Pool()
    one.pages.append(Page(1))
    assert other.pages == []


def test_a_record_cannot_be_changed() -> None:
    page = Page(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        page.number = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del page.number
    with pytest.raises(dataclasses.FrozenInstanceError):
        page.colour = "red"  # type: ignore[attr-defined]


def test_a_mutable_record_can_be_changed_and_has_no_hash() -> None:
    pool = Pool(free=3)
    pool.free -= 1
    assert pool == Pool([], 2)
    with pytest.raises(TypeError, match="unhashable"):
        hash(pool)
    with pytest.raises(AttributeError):
        pool.colour = "red"  # type: ignore[attr-defined]


def test_wrong_arguments_are_refused_as_by_any_function() -> None:
    with pytest.raises(TypeError, match="number"):
        Page()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="colour"):
        Page(1, colour="red")  # type: ignore[call-arg]


def test_what_a_record_cannot_do_is_said_when_it_is_defined() -> None:
    with pytest.raises(TypeError, match="plain fields only"):

        @record
        class Late:
            number: int = dataclasses.field(init=False)

    with pytest.raises(TypeError, match="plain fields only"):

        @record
        class After:
            number: int

            def __post_init__(self) -> None: ...


def test_one_can_match_by_position() -> None:
    match Page(7, "a"):
        case Page(number, owner):
            assert (number, owner) == (7, "a")


def test_a_cached_property_needs_a_plain_dataclass() -> None:
    @record
    class Counted:
        number: int

        @cached_property
        def twice(self) -> int:
            return 2 * self.number

    with pytest.raises(TypeError, match="__dict__"):
        _ = Counted(1).twice
