"""The walk: sharing and cycles, the reduce protocol to the letter, depth, adapters inside containers."""

from __future__ import annotations

import collections
import copyreg
import dataclasses
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from support.trips import host

import transload

# ── Sharing and cycles ───────────────────────────────────────────────────────────────────────────────────────


@transload.trust
class Node:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@pytest.mark.parametrize("thing", [[1], {"a": 1}, {1, 2}, (1, [2]), frozenset({1}), bytearray(b"x"), "some text", b"some bytes", Node(a=1), np.arange(3), np.arange(100_000), np.float64(1.5) * 3])
def test_one_object_twice_stays_one(thing: Any) -> None:
    first, (second, third) = host([thing, (thing, {"k": thing}["k"])])
    assert first is second is third


def test_array_twice_is_one_copy_on_the_wire() -> None:
    array = np.zeros(1_000_000)
    message = transload.serialize({"x": array, "y": array, "z": [array]}, families=("host",))
    assert message.nbytes < array.nbytes + 500


def test_views_of_one_base_share_memory_again() -> None:
    base = np.arange(100_000)
    whole, part, back = host([base, base[10:50_000], base[::-1]])
    part[0] = -1
    assert whole[10] == -1 and back[-11] == -1
    assert transload.serialize([base, base[10:50_000], base[::-1]]).nbytes < base.nbytes + 500


def test_overlapping_views_without_their_base_share_memory_again() -> None:
    base = np.arange(100_000)
    first, second = host([base[:60_000], base[40_000:]])
    first[50_000] = -1
    assert second[10_000] == -1


def test_equal_but_distinct_objects_stay_distinct() -> None:
    first, second = host([[1], [1]])
    assert first is not second


def test_list_that_holds_itself() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    arrived = host(loop)
    assert arrived[1] is arrived and arrived[0] == 1


def test_dict_set_and_object_cycles() -> None:
    node = Node()
    node.me = node
    node.table = {"back": node}
    node.members = {node}
    arrived = host(node)
    assert arrived.me is arrived and arrived.table["back"] is arrived and arrived.members == {arrived}


def test_tuple_in_a_cycle() -> None:
    inner: list[Any] = []
    loop = (inner, 5)
    inner.append(loop)
    arrived = host(loop)
    assert type(arrived) is tuple and arrived[0][0] is arrived and arrived[1] == 5


def test_frozenset_in_a_cycle() -> None:
    node = Node()
    loop = frozenset({node})
    node.back = loop
    arrived = host(loop)
    (member,) = arrived
    assert member.back is arrived


def test_object_array_that_holds_itself() -> None:
    array = np.empty(2, object)
    array[0] = array
    arrived = host(array)
    assert arrived[0] is arrived


def test_two_objects_that_know_each_other() -> None:
    a, b = Node(name="a"), Node(name="b")
    a.other, b.other = b, a
    first, second = host([a, b])
    assert first.other is second and second.other is first


def test_deque_and_defaultdict_cycles() -> None:
    queue: Any = collections.deque([1])
    queue.append(queue)
    table: Any = collections.defaultdict(list)
    table["me"] = table
    arrived_queue, arrived_table = host([queue, table])
    assert arrived_queue[1] is arrived_queue and arrived_table["me"] is arrived_table


# ── Depth ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: (x,), lambda x: {"k": x}, lambda x: Node(x=x), lambda x: {1: x, 2: 0}])
@pytest.mark.parametrize("depth", [600, 5000, 9000])
def test_nesting(wrap: Any, depth: int) -> None:
    nested: Any = "core"
    for _ in range(depth):
        nested = wrap(nested)
    at, n = host(nested), 0
    while at != "core":
        at = at.x if isinstance(at, Node) else next(iter(at.values())) if isinstance(at, dict) else at[0]
        n += 1
    assert n == depth


def test_nesting_beyond_the_limit_is_refused_at_the_sender() -> None:
    nested: Any = []
    for _ in range(20_000):
        nested = [nested]
    with pytest.raises(transload.Unsupported, match="deep"):
        transload.dumps(nested, families=("host",))


def test_small_stack_refuses_instead_of_crashing() -> None:
    nested: Any = []
    for _ in range(9000):
        nested = [nested]
    message = transload.dumps(nested, families=("host",))
    got: list[Any] = []

    def run() -> None:
        for work in (lambda: transload.dumps(nested, families=("host",)), lambda: transload.loads(message)):
            try:
                work()
                got.append("done")
            except transload.Error as error:
                got.append(type(error).__name__)

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert len(got) == 2 and set(got) <= {"Unsupported", "Malformed"}


# ── Any object by its state ──────────────────────────────────────────────────────────────────────────────────


@transload.trust
@dataclasses.dataclass
class Data:
    x: int
    y: Any = None


@transload.trust
@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: int
    y: Any = None


@transload.trust
class Slots:
    __slots__ = ("a", "b")


@transload.trust
class SlotsAndDict(Slots):
    pass


@transload.trust
class Private:
    __slots__ = ("__hidden",)

    def __init__(self) -> None:
        self.__hidden = 5

    def hidden(self) -> int:
        return self.__hidden


@transload.trust
class WithState:
    calls = 0

    def __init__(self, value: Any) -> None:
        self.value = value

    def __getstate__(self) -> Any:
        type(self).calls += 1
        return ("state", self.value)

    def __setstate__(self, state: Any) -> None:
        assert state[0] == "state"
        self.value = state[1]


@transload.trust
class FalseState(WithState):
    def __getstate__(self) -> Any:
        return 0

    def __setstate__(self, state: Any) -> None:
        self.value = ("set", state)


@transload.trust
class NewArgs:
    def __new__(cls, a: Any, b: Any = None) -> Any:
        self = object.__new__(cls)
        self.made = (a, b)
        return self

    def __init__(self, *_: Any) -> None:
        self.inited = True

    def __getnewargs__(self) -> Any:
        return self.made


@transload.trust
class NewArgsEx:
    def __new__(cls, *, key: Any) -> Any:
        self = object.__new__(cls)
        self.key = key
        return self

    def __getnewargs_ex__(self) -> Any:
        return (), {"key": self.key}


@transload.trust
class Reduced:
    def __init__(self, *args: Any) -> None:
        self.args = args

    def __reduce__(self) -> Any:
        return type(self), self.args, {"extra": 1}


@transload.trust
class ReducedEx(Reduced):
    def __reduce_ex__(self, protocol: int) -> Any:
        assert protocol == 5
        return type(self), (protocol,)


@transload.trust
class TextReduced:
    def __reduce__(self) -> Any:
        return "TEXT_REDUCED"


TEXT_REDUCED = TextReduced()


@transload.trust
class MyList(list):  # type: ignore[type-arg]
    pass


@transload.trust
class MyDict(dict):  # type: ignore[type-arg]
    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.__dict__["seen"] = [*self.__dict__.get("seen", ()), key]


@transload.trust
class MyTuple(tuple):  # type: ignore[type-arg]
    pass


@transload.trust
class MyInt(int):
    pass


@transload.trust
class MyStr(str):
    pass


@transload.trust
class MySet(set):  # type: ignore[type-arg]
    pass


@transload.trust
class MyBytes(bytes):
    pass


@transload.trust
class MyFloat(float):
    pass


@transload.trust
class ItemsAndPairs(dict):  # type: ignore[type-arg]
    def __init__(self) -> None:
        self.items_ = []

    def extend(self, items: Any) -> None:
        self.items_.extend(items)

    def __reduce__(self) -> Any:
        return type(self), (), {"state": 1}, iter([1, 2]), iter([("k", "v")])


@transload.trust
def set_by_hand(obj: Any, state: Any) -> None:
    obj.by_hand = state


@transload.trust
class WithSetter:
    def __reduce__(self) -> Any:
        return type(self), (), ["raw"], None, None, set_by_hand


@transload.trust
class Forwarder:
    """Answers to every name; reads its own attribute before it has one."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)


@transload.trust
class Guarded:
    """Refuses attributes."""

    def __init__(self) -> None:
        object.__setattr__(self, "x", 1)

    def __setattr__(self, name: str, value: Any) -> None:
        raise TypeError("immutable")


@transload.trust
class Property:
    """The dict has a key with a property's name."""

    def __init__(self) -> None:
        self.__dict__["value"] = 3

    @property
    def value(self) -> Any:
        return self.__dict__["value"]


@transload.trust
class Outer:
    @transload.trust
    class Inner:
        def __init__(self) -> None:
            self.x = 1

    @classmethod
    def make(cls) -> Any:
        return cls()


class ByCopyreg:
    def __init__(self, value: Any) -> None:
        self.value = value


@transload.trust
def _remake(value: Any) -> Any:
    return ByCopyreg(("remade", value))


copyreg.pickle(ByCopyreg, lambda obj: (_remake, (obj.value,)))


def _slots(*values: Any) -> Any:
    obj = Slots()
    for name, value in zip(("a", "b"), values, strict=False):
        setattr(obj, name, value)
    return obj


def test_dataclasses() -> None:
    arrived = host([Data(1, [2]), Frozen(3, "y")])
    assert arrived == [Data(1, [2]), Frozen(3, "y")] and type(arrived[1]) is Frozen


@pytest.mark.parametrize("values", [(), (1,), (1, [2])])
def test_slots_keep_what_is_set_and_what_is_not(values: Any) -> None:
    arrived = host(_slots(*values))
    assert [getattr(arrived, name, "unset") for name in ("a", "b")] == [*values, *["unset"] * (2 - len(values))]


def test_slots_beside_a_dict() -> None:
    obj = SlotsAndDict()
    obj.a, obj.free = 1, 2
    arrived = host(obj)
    assert arrived.a == 1 and arrived.__dict__ == {"free": 2} and not hasattr(arrived, "b")


def test_private_slot() -> None:
    assert host(Private()).hidden() == 5


@pytest.mark.parametrize("content", [b"plain", b"if __name__ == '__main__':"])
def test_state_is_asked_for_once(content: bytes) -> None:
    WithState.calls = 0
    assert host(WithState(content)).value == content
    assert WithState.calls == 1


def test_false_state_is_set_and_none_is_not() -> None:
    assert host(FalseState(1)).value == ("set", 0)


def test_new_arguments() -> None:
    arrived = host([NewArgs(1, [2]), NewArgsEx(key="k")])
    assert arrived[0].made == (1, [2]) and arrived[1].key == "k"


def test_init_does_not_run() -> None:
    obj = NewArgs(1)
    del obj.inited
    assert not hasattr(host(obj), "inited")


def test_reduce_and_reduce_ex() -> None:
    arrived = host([Reduced(1, "a"), ReducedEx()])
    assert arrived[0].args == (1, "a") and arrived[0].extra == 1 and arrived[1].args == (5,)


def test_reduce_to_a_name() -> None:
    transload.trust(f"{__name__}:TEXT_REDUCED")
    assert host(TEXT_REDUCED) is TEXT_REDUCED


@pytest.mark.parametrize("obj", [MyList([1, 2]), MyDict(a=1), MyTuple((1, 2)), MyInt(5), MyStr("s"), MySet({1}), MyBytes(b"b"), MyFloat(1.5)])
def test_subclass_of_a_builtin_keeps_class_and_attributes(obj: Any) -> None:
    obj.note = "n"
    arrived = host(obj)
    assert type(arrived) is type(obj) and arrived == obj and arrived.note == "n"


def test_pairs_go_through_setitem_and_state_comes_last() -> None:
    obj = MyDict()
    obj["x"] = 1
    obj.__dict__["seen"] = ["overwritten"]
    assert host(obj).seen == pickle.loads(pickle.dumps(obj)).seen


def test_items_pairs_and_state_of_reduce() -> None:
    arrived = host(ItemsAndPairs())
    assert (arrived.items_, dict(arrived), arrived.state) == ([1, 2], {"k": "v"}, 1)


def test_state_setter() -> None:
    assert host(WithSetter()).by_hand == ["raw"]


def test_copyreg() -> None:
    assert host(ByCopyreg(3)).value == ("remade", 3)


def test_forwarder_guarded_and_property() -> None:
    forwarder, guarded, with_property = host([Forwarder([1]), Guarded(), Property()])
    assert forwarder.inner == [1] and guarded.x == 1 and with_property.value == 3


def test_nested_class_and_class_method() -> None:
    inner, cls = host([Outer.Inner(), Outer])
    assert inner.x == 1 and cls is Outer
    with pytest.raises(transload.Unsupported, match=r"Outer\.make is not on the trust list"):  # and getattr reaches everything
        transload.dumps(Outer.make, families=("host",))


def test_non_string_attribute_keys_and_many_attributes() -> None:
    many = Node(**{f"a{i}": i for i in range(500)})
    odd = Node()
    odd.__dict__[5] = "five"
    arrived = host([many, odd])
    assert arrived[0].__dict__ == many.__dict__ and arrived[1].__dict__ == {5: "five"}


def test_objects_of_one_class_with_other_attributes() -> None:
    nodes = [Node(**{name: i for name in "abcdefgh"[: i % 8]}) for i in range(200)]
    assert [n.__dict__ for n in host(nodes)] == [n.__dict__ for n in nodes]


def test_error_of_getstate_is_raised_with_its_place() -> None:
    @dataclasses.dataclass
    class Broken:
        def __getstate__(self) -> Any:
            raise ZeroDivisionError("inside")

    Broken.__qualname__ = "Node"
    with pytest.raises(ZeroDivisionError) as caught:
        transload.dumps({"k": [Broken()]})
    assert any("obj['k'][0]" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("answer", [5, (), (1,), ("x", ()), (dict, [1]), (dict, (), None, None, None, None, None)])
def test_reduce_that_breaks_the_protocol_is_refused(answer: Any) -> None:
    class Bad:
        def __reduce__(self) -> Any:
            return answer

    with pytest.raises((transload.Unsupported, TypeError)):
        transload.dumps(Bad(), families=("host",))


def test_list_that_changes_under_way_is_an_error() -> None:
    items: list[Any] = []

    class Meddler:
        def __reduce__(self) -> Any:
            items.append(0)
            return int, (1,)

    Meddler.__qualname__ = "Node"
    items += [Meddler() for _ in range(3)]
    with pytest.raises((transload.Error, RuntimeError)):
        transload.dumps(items, families=("host", "pickle"))


# ── Adapters ─────────────────────────────────────────────────────────────────────────────────────────────────


class Image:
    def __init__(self, pixels: Any) -> None:
        self.pixels = pixels


calls: list[str] = []


def _encode(image: Image) -> Any:
    calls.append("encode")
    return {"pixels": image.pixels}


def _decode(value: Any) -> Image:
    calls.append("decode")
    return Image(value["pixels"])


transload.register(Image, name="test.image", encode=_encode, decode=_decode)


@pytest.mark.parametrize("wrap", [lambda i: i, lambda i: [i], lambda i: [1.0, i], lambda i: (None, i), lambda i: {"k": i}, lambda i: Node(i=i), lambda i: np.array([i], object), lambda i: collections.deque([i])])
def test_registered_adapter_is_used_wherever_the_object_sits(wrap: Any) -> None:
    calls.clear()
    host(wrap(Image(np.arange(5))))
    assert calls == ["encode", "decode"]


def test_registered_object_twice_stays_one() -> None:
    image = Image(np.zeros(100_000))
    first, second = host([image, image])
    assert first is second


def test_subclass_of_a_registered_class_is_not_meant() -> None:
    class Sub(Image):
        pass

    with pytest.raises(transload.Unsupported):
        transload.dumps(Sub(1), families=("host",))


def test_adapter_that_steps_back_leaves_the_object_to_reduce() -> None:
    @dataclasses.dataclass
    class Half:
        x: int

    Half.__qualname__ = "Data"

    def encode(obj: Any) -> Any:
        raise NotImplementedError("only half known")

    transload.register(Half, name="test.half", encode=encode, decode=lambda value: value)
    with pytest.raises(transload.Unsupported):  # the class cannot be named, so reduce has no name to write
        transload.dumps(Half(1), families=("host",))


@pytest.mark.parametrize("name", ["", "a:b", "a b", "ä", "x/y"])
def test_wire_names_are_plain(name: str) -> None:
    with pytest.raises(ValueError, match="wire name"):
        transload.register(Image, name=name, encode=_encode, decode=_decode)


def test_wire_name_of_another_class_is_refused() -> None:
    with pytest.raises(ValueError, match="another class"):
        transload.register(Node, name="test.image", encode=_encode, decode=_decode)


def test_unknown_wire_name_is_refused_with_the_name() -> None:
    header, *frames = transload.dumps(Image(1), families=("host",))
    with pytest.raises(transload.Untrusted, match="test.imagf"):
        transload.loads([bytes(header).replace(b"test.image", b"test.imagf"), *frames])


def test_error_of_decode_is_malformed_with_its_cause() -> None:
    class Picky:
        pass

    def refuse(value: Any) -> Any:
        raise KeyError("nope")

    transload.register(Picky, name="test.picky", encode=lambda obj: 1, decode=refuse)
    with pytest.raises(transload.Malformed, match="test.picky") as caught:
        host([Picky()])
    assert isinstance(caught.value.__cause__, KeyError)


def test_lazy_adapter_is_loaded_at_the_first_object() -> None:
    class Late:
        pass

    Late.__module__ = "some_late_library.part"
    ran: list[int] = []

    def importer() -> None:
        ran.append(1)
        transload.register(Late, name="some_late_library.late", encode=lambda obj: 7, decode=lambda value: ("late", value))

    transload.register_lazy("some_late_library", importer)
    assert host([Late(), Late()])[1] == ("late", 7) and ran == [1]
