"""Python sources: functions, methods with their class, what is between, what does not parse."""

from __future__ import annotations

import pytest

from kbsync.model import ChunkLimits, Parsed
from kbsync.pipelines import router
from tests.fakes.word_counter import WordCounter

LIMITS = ChunkLimits()


def read(text: str, limits: ChunkLimits = LIMITS) -> Parsed:
    return router.convert(text.encode(), "code", "python", "auth.py", limits, WordCounter())


def outline(text: str) -> list[tuple[str, str | None, int | None, int | None]]:
    return [(piece.kind, piece.section_header, piece.first_line, piece.last_line) for piece in read(text).pieces]


SOURCE = '''"""Who may come in."""

import os

LIMIT = 3


# Checks a name.
# Twice.
@cached
@other(
    1,
)
def check(name):
    def inner():
        return name

    return inner


class Door(Base):
    """A door.

    It opens.
    """

    width = 2

    # Opens it.
    async def open(self):
        return 1

    height = 3

    class Lock:
        """Inside."""

        @property
        def closed(self):
            return True


if __name__ == "__main__":
    check("x")
'''


def test_functions_methods_and_classes_become_pieces() -> None:
    assert outline(SOURCE) == [
        ("module", None, 1, 7),
        ("function", "check", 8, 20),
        ("class", "Door", 21, 28),
        ("method", "Door.open", 29, 32),
        ("class", "Door", 33, 34),
        ("class", "Door.Lock", 35, 37),
        ("method", "Door.Lock.closed", 38, 42),
        ("module", None, 43, 44),
    ]


def test_decorators_and_comments_belong_to_their_function_and_nested_ones_stay_inside() -> None:
    check = read(SOURCE).pieces[1]
    assert check.text.startswith("# Checks a name.\n# Twice.\n@cached\n@other(")
    assert check.text.endswith("    return inner")


def test_methods_carry_signature_and_docstring_of_their_class() -> None:
    pieces = read(SOURCE).pieces
    door = 'class Door(Base):\n    """A door.\n\n    It opens.\n    """'
    assert pieces[3].text == f"{door}\n    # Opens it.\n    async def open(self):\n        return 1"
    assert pieces[4].text == f"{door}\n    height = 3"
    assert pieces[6].text.startswith('class Door(Base):\n    class Lock:\n        """Inside."""\n        @property')


def test_methods_of_inner_classes_carry_all_classes_around_them() -> None:
    inner = "class A:\n  class B(X):\n    'Doc.'\n    class C:\n      async def f(self):\n        pass\n"
    assert (
        read(inner).pieces[-1].text == "class A:\n  class B(X):\n    class C:\n      async def f(self):\n        pass"
    )


@pytest.mark.parametrize(
    "block",
    [
        "if sys.platform == 'win32':\n    {}\nelif x:\n    pass\nelse:\n    y = 1\n",
        "if x:\n    y = 1\nelif z:\n    pass\nelse:\n    {}\n",
        "try:\n    import x\nexcept ImportError:\n    {}\n",
        "try:\n    pass\nfinally:\n    {}\n",
        "try:\n    pass\nexcept* OSError:\n    {}\n",
        "with a as b, c:\n    {}\n",
        "for x in y:\n    {}\nelse:\n    pass\n",
        "while x:\n    {}\n",
        "match x:\n    case [a, *b] if a:\n        pass\n    case _:\n        {}\n",
        "if x:\n    with y:\n        {}\n",
    ],
)
@pytest.mark.parametrize(("code", "name"), [("def f(): pass", "f"), ("class A: pass", "A")])
def test_what_is_defined_under_a_condition_is_a_piece_too(block: str, code: str, name: str) -> None:
    text = block.format(code)
    line = next(number for number, row in enumerate(text.split("\n"), 1) if code in row)
    found = {(piece.section_header, piece.first_line, piece.last_line) for piece in read(text).pieces}
    assert (name, line, line) in found


def test_methods_under_a_condition_carry_their_class() -> None:
    text = (
        "class A:\n    if x:\n        # About f.\n        def f(self): pass\n    else:\n        def f(self): return 1\n"
    )
    assert [(piece.section_header, piece.text) for piece in read(text).pieces] == [
        ("A", "class A:\n    if x:"),
        ("A.f", "class A:\n        # About f.\n        def f(self): pass"),
        ("A", "class A:\n    else:"),
        ("A.f", "class A:\n        def f(self): return 1"),
    ]


def test_comments_at_the_end_of_a_body_belong_to_it() -> None:
    text = (
        "class A:\n    def f(self):\n        pass\n\n        # end of f\n    # end of A\n\n    # still A\n"
        "# of the module\n\ndef g():\n    pass\n    # end of g\n# about h\ndef h(): pass\n"
    )
    assert outline(text) == [
        ("class", "A", 1, 1),
        ("method", "A.f", 2, 5),
        ("class", "A", 6, 8),
        ("module", None, 9, 10),
        ("function", "g", 11, 13),
        ("function", "h", 14, 15),
    ]


def test_overloads_decorators_with_comments_and_async_stay_whole() -> None:
    text = (
        "@overload\ndef f(x: int): ...\n@a\n# why\n@b(\n  1)\nasync def f(x):\n    async with x: pass\n    return x\n"
    )
    assert outline(text) == [("function", "f", 1, 2), ("function", "f", 3, 9)]


@pytest.mark.parametrize("text", ["# only\n\n# comments\n", '"""Only a docstring."""\n', "#!/usr/bin/env python\n"])
def test_a_file_without_code_is_one_piece(text: str) -> None:
    assert outline(text) == [("module", None, 1, text.count("\n"))]


def test_a_signature_too_long_to_repeat_is_shortened_to_its_first_line() -> None:
    signature = "def f(\n" + "".join(f"    a{number}: int,\n" for number in range(30)) + "):"
    text = f"{signature}\n" + "".join(f"    x{number} = 1\n" for number in range(60))
    parts = read(text, ChunkLimits(max_tokens=64)).pieces
    assert all(piece.text.startswith("def f(\n") and piece.text.count("def f(") == 1 for piece in parts)


def test_without_context_methods_stand_alone() -> None:
    pieces = read(SOURCE, ChunkLimits(include_context=False)).pieces
    assert pieces[3].text == "    # Opens it.\n    async def open(self):\n        return 1"


def test_a_docstring_too_long_to_repeat_is_shortened_to_its_first_line() -> None:
    docstring = '    """First line.\n\n' + "    more words here\n" * 100 + '    """\n'
    text = f"class A:\n{docstring}\n    def f(self):\n        return 1\n"
    method = read(text, ChunkLimits(max_tokens=64)).pieces[-1]
    assert method.text == 'class A:\n    """First line.\n    def f(self):\n        return 1'


def test_a_long_function_becomes_parts_that_repeat_its_signature() -> None:
    body = [f"    x{number} = call(x{number})" for number in range(60)]
    text = (
        "class A:\n    y = 1\n\n    def long(\n        self,\n    ):\n" + "\n".join(f"    {row}" for row in body) + "\n"
    )
    parts = read(text, ChunkLimits(max_tokens=80)).pieces[1:]
    assert [piece.metadata["part"] for piece in parts] == [f"{n}/{len(parts)}" for n in range(1, len(parts) + 1)]
    assert len(parts) > 3
    signature = "    def long(\n        self,\n    ):"
    assert all(piece.text.startswith(f"class A:\n{signature}\n") for piece in parts)
    assert [row[4:] for piece in parts for row in piece.text.split("\n")[4:]] == body
    assert {piece.section_header for piece in parts} == {"A.long"}


def test_a_hash_line_in_a_string_is_no_comment_of_the_next_function() -> None:
    assert outline('x = """\n# in a string"""\ndef f():\n    pass\n')[0] == ("module", None, 1, 2)


def test_editing_one_function_leaves_all_other_pieces_as_they_are() -> None:
    before = read(SOURCE).pieces
    after = read(SOURCE.replace("        return name", "        return name + 'more'\n\n    y = 2")).pieces
    changed = [old.section_header for old, new in zip(before, after, strict=True) if old.text != new.text]
    assert changed == ["check"]


@pytest.mark.parametrize(
    "text",
    [
        "print 'python 2'\ndef f():\n    pass\n",
        "def f():\n\treturn 1\n        return 2\n",
        "def broken(:\n",
        "(" * 10_000,
        "-" * 50_000 + "1",
        "a" + ".b" * 50_000,
        "if x: pass\n" + "elif y: pass\n" * 20_000,
        "x = '\\d'\n",
        "just = 'statements'\nno = 'functions'\n",
    ],
    ids=["python 2", "tabs", "syntax", "parentheses", "unary", "chain", "elif", "escape", "statements"],
)
def test_what_has_no_functions_or_does_not_parse_is_cut_at_lines(text: str) -> None:
    parsed = read(text)
    assert {piece.kind for piece in parsed.pieces} == {"module"}
    assert parsed.pieces[0].text.startswith(text[:8])
    assert parsed.pieces[-1].last_line == len(text.rstrip("\n").split("\n"))


def test_lines_end_at_line_feeds_only() -> None:
    assert outline("x = 1\n\x0c\ndef f():\n    return '\u2028'\n\n\ny = 2\n") == [
        ("module", None, 1, 2),
        ("function", "f", 3, 6),
        ("module", None, 7, 7),
    ]
