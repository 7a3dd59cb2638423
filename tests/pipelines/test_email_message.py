"""E-mail: headers, bodies in their forms and encodings, attachments by name, and what is broken, deep or no message."""

from __future__ import annotations

import base64
import quopri
from email.message import EmailMessage
from email.policy import SMTP

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbsync.errors import SkipFile
from kbsync.model import ChunkLimits, Parsed
from kbsync.pipelines import email_message, router
from kbsync.reasons import Reason
from tests.fakes.word_counter import WordCounter

HEAD = b"From: Ann <ann@example.org>\nSubject: Orchard\n"


def read(data: bytes) -> Parsed:
    return router.convert(data, "email", None, "letter.eml", ChunkLimits(), WordCounter())


def text_of(parsed: Parsed) -> str:
    return "\n".join(piece.text for piece in parsed.pieces)


def message(subject: str = "Orchard") -> EmailMessage:
    letter = EmailMessage()
    letter["From"] = "Jürgen Groß <groß@example.org>"
    letter["To"] = "Ann <ann@example.org>"
    letter["Date"] = "Mon, 05 Feb 2024 10:00:00 +0100"
    letter["Subject"] = subject
    return letter


def multipart(kind: str, *parts: bytes) -> bytes:
    return (
        b'Content-Type: multipart/%s; boundary="=_x"\n\npreamble\n' % kind.encode()
        + b"".join(b"--=_x\n" + part + b"\n" for part in parts)
        + b"--=_x--\nepilogue\n"
    )


def test_headers_body_and_the_names_of_attachments_are_read() -> None:
    letter = message("Grüße aus dem Obstgarten, in dem die Quitten reifen, an alle, die sie einmal gekostet haben")
    letter.set_content("The quince ripens late.\n")
    letter.add_attachment(b"%PDF-1.4 medlar", maintype="application", subtype="pdf", filename="Übersicht.pdf")
    letter.add_attachment("the medlar is not read", filename="notes.txt")
    parsed = read(letter.as_bytes(policy=SMTP))
    assert parsed.title == letter["Subject"]
    assert [piece.kind for piece in parsed.pieces] == ["email"]
    assert text_of(parsed).split("\n") == [
        "From: Jürgen Groß <groß@example.org>",
        "To: Ann <ann@example.org>",
        "Date: Mon, 05 Feb 2024 10:00:00 +0100",
        f"Subject: {letter['Subject']}",
        "",
        "The quince ripens late.",
        "",
        "Attachments: Übersicht.pdf, notes.txt",
    ]
    assert parsed.metadata == {
        "from": "Jürgen Groß <groß@example.org>",
        "to": "Ann <ann@example.org>",
        "date": "Mon, 05 Feb 2024 10:00:00 +0100",
        "attachments": ["Übersicht.pdf", "notes.txt"],
    }
    assert parsed.pieces[0].first_line is None
    assert not parsed.truncated


def test_of_two_forms_of_one_text_the_plain_one_is_read() -> None:
    letter = message()
    letter.set_content("plain quince")
    letter.add_alternative("<p>marked-up quince</p>", subtype="html")
    text = text_of(read(letter.as_bytes()))
    assert "plain quince" in text
    assert "marked-up" not in text


@pytest.mark.parametrize("plain", [None, "", " \n"])
def test_a_body_that_is_only_html_is_made_text(plain: str | None) -> None:
    letter = message()
    if plain is None:
        letter.set_content("<h1>Hello</h1><p>The <b>qui</b>nce&nbsp;ripens</p><style>p{}</style>", subtype="html")
    else:
        letter.set_content(plain)
        letter.add_alternative("<h1>Hello</h1><p>The <b>qui</b>nce&nbsp;ripens</p><style>p{}</style>", subtype="html")
    assert text_of(read(letter.as_bytes())).endswith("\n\nHello\n\nThe quince ripens")


@pytest.mark.parametrize(
    ("charset", "transport", "words"),
    [
        ("utf-8", "base64", "Größe 榅桲"),
        ("utf-8", "quoted-printable", "Größe 榅桲"),
        ("utf-8", "8bit", "Größe 榅桲"),
        ("iso-8859-1", "8bit", "Größe \N{EURO SIGN} “quoted”"),
        ("windows-1251", "quoted-printable", "айва созревает"),
        ("koi8-r", "base64", "айва созревает"),
        ("gb2312", "8bit", "榅桲成熟得晚"),
        ("big5", "base64", "木梨成熟得晚"),
        ("shift_jis", "8bit", "マルメロは遅く熟す"),
        ("iso-2022-jp", "7bit", "マルメロは遅く熟す"),
        ("euc-kr", "8bit", "모과가 늦게 익는다"),
    ],
)
def test_each_part_is_read_in_its_own_encoding(charset: str, transport: str, words: str) -> None:
    codec = {"iso-8859-1": "cp1252", "gb2312": "gb18030"}.get(charset, charset)
    encoded = {"base64": base64.encodebytes, "quoted-printable": quopri.encodestring}.get(transport, bytes)
    body = encoded(words.encode(codec))
    part = f'Content-Type: text/plain; charset="{charset}"\nContent-Transfer-Encoding: {transport}\n\n'.encode() + body
    assert words in text_of(read(HEAD + part)), "alone"
    assert words in text_of(read(HEAD + multipart("mixed", part))), "as a part"


@pytest.mark.parametrize("charset", ["no-such-charset", "us-ascii", "rot13", "unicode-1-1-utf-8", "utf-16", "idna", ""])
def test_a_charset_that_is_unknown_or_not_the_truth_does_not_hide_the_text(charset: str) -> None:
    body = "Die Größe der Quitten überrascht jeden".encode()
    assert len(body) % 2, "an odd number of bytes is no UTF-16"
    part = f"Content-Type: text/plain; charset={charset}\n\n".encode() + body
    assert "Die Größe der Quitten" in text_of(read(HEAD + part))


@pytest.mark.parametrize(
    ("subject", "title"),
    [
        (b"=?utf-8?B?R3LDvMOfZQ==?=", "Grüße"),
        (b"=?iso-8859-1?q?Gr=FC=DFe_an_alle?=", "Grüße an alle"),
        (b"=?utf-8?Q?Gr=C3?=\n =?utf-8?Q?=BC=C3=9Fe?= there", "Grüße there"),
        (b"Re: =?gb2312?B?yc/O58nUzqIg?= =?utf-8?q?_=E6=A6=85?=", None),
        (b"Gr\xc3\xbc\xc3\x9fe", "Grüße"),
        (b"folded\n subject", "folded subject"),
        (b"=?utf-8?B?broken!!?=", None),
        (b"=?nonsense?q?words?=", "words"),
        (b"=?utf-7?q?+2AA-lone?=", "?lone"),
        (b"C:\\users\\new =?utf-8?q?=C3=A4?=", "C:\\users\\new ä"),
    ],
)
def test_words_in_headers_are_decoded(subject: bytes, title: str | None) -> None:
    parsed = read(b"From: a@example.org\nSubject: " + subject + b"\n\nquince\n")
    assert parsed.title
    assert title is None or parsed.title == title
    parsed.title.encode()


def test_a_forwarded_message_is_read_with_its_headers_and_an_attached_one_is_named() -> None:
    inner = message("The old orchard")
    inner.set_content("medlar words")
    outer = message("Fwd: The old orchard")
    outer.set_content("see below")
    outer.add_attachment(inner, disposition="inline")
    text = text_of(read(outer.as_bytes()))
    assert "see below\n\nFrom: Jürgen" in text
    assert "Subject: The old orchard\n\nmedlar words" in text
    attached = message()
    attached.set_content("see attachment")
    attached.add_attachment(inner, filename="old.eml")
    text = text_of(read(attached.as_bytes()))
    assert "medlar" not in text
    assert text.endswith("Attachments: old.eml")


def nested(levels: int) -> bytes:
    head = HEAD
    for level in range(levels):
        head += b'Content-Type: multipart/mixed; boundary="b%d"\n\n--b%d\n\nlevel%d\n--b%d\n' % ((level,) * 4)
    return head + b"Content-Type: text/plain\n\ninnermost\n"


def test_nested_parts_are_read_to_a_depth_and_the_rest_is_said() -> None:
    shallow = read(nested(5))
    assert "level4" in text_of(shallow)
    assert "innermost" in text_of(shallow)
    assert not shallow.truncated
    deep = read(nested(1000))
    assert deep.truncated
    assert f"level{email_message.MOST_DEPTH - 2}\n" in text_of(deep) + "\n"
    assert "innermost" not in text_of(deep)
    assert "16 levels" in str(deep.metadata["parts_left_out"])


def test_of_very_many_parts_the_first_are_read() -> None:
    parsed = read(HEAD + multipart("mixed", *(b"\nword%d" % number for number in range(3000))))
    assert parsed.truncated
    text = text_of(parsed)
    assert "word0\n" in text
    assert "word2999" not in text


def test_a_message_that_a_limit_cuts_in_its_attachment_is_still_read() -> None:
    picture = b"Content-Type: image/png; name=x.png\nContent-Transfer-Encoding: base64\n\n"
    data = HEAD + multipart("mixed", b"\nthe body", picture + b"QUFB\n" * (router.MAX_TEXT_BYTES // 5))
    parsed = read(data[: router.MAX_TEXT_BYTES + 1])
    assert text_of(parsed).endswith("the body\n\nAttachments: x.png")
    assert parsed.truncated


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (HEAD, "Subject: Orchard"),
        (HEAD + b"\n", "Subject: Orchard"),
        (HEAD + b"this is no field\nnor this\n\nquince", "quince"),
        (HEAD + b"Content-Type: multipart/mixed\n\nquince without a boundary", "quince without"),
        (HEAD + b"Content-Type: multipart/mixed; boundary=x\n\nquince, no part", "quince, no part"),
        (HEAD + b"Content-Type: nonsense\n\nquince", "quince"),
        (HEAD + b"Content-Transfer-Encoding: base64\n\n!!! no base64", "Subject: Orchard"),
        (b"\xef\xbb\xbf" + HEAD + b"\nquince", "quince"),
        (b"From ann Mon Feb  5 10:00:00 2024\n" + HEAD + b"\nquince", "quince"),
        (HEAD.replace(b"\n", b"\r\n") + b"\r\nquince\r\n", "quince"),
        (HEAD + multipart("mixed", b"Content-Type: text/plain\n\n\x00\x01\x02\x03" * 9, b"\nquince"), "quince"),
        (b"just a text with quince in it\n", "quince"),
    ],
)
def test_what_is_broken_is_read_as_far_as_it_goes(data: bytes, text: str) -> None:
    assert text in text_of(read(data))


@pytest.mark.parametrize(
    ("data", "reason"), [(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9, Reason.BINARY), (b"\n \n", Reason.EMPTY)]
)
def test_what_is_no_message_and_no_text_is_skipped(data: bytes, reason: Reason) -> None:
    with pytest.raises(SkipFile) as refused:
        read(data)
    assert refused.value.reason is reason


LINES = st.sampled_from(
    (
        *(b"From: a", b"Subject: =?utf-8?b?w=?=", b"Content-Type: multipart/mixed; boundary=b", b"--b", b"--b--", b""),
        *(b"Content-Type: text/html; charset=utf-7", b"Content-Transfer-Encoding: base64", b"=C3=A4", b"\xff\xfe\x00"),
        *(b"Content-Type: message/rfc822", b"Content-Type: multipart/alternative; boundary*0=b; boundary*1=c"),
        *(
            b"Content-Disposition: attachment; filename*=utf-8''%ff",
            b"Content-Transfer-Encoding: x-uuencode",
            b" folded",
        ),
        *(b"Content-Type: ; ;=", b"begin 644 a", b"<p>text", b"+2AA-", b":", b"\xed\xa0\x80"),
    )
)


@settings(deadline=None)
@given(st.lists(LINES, max_size=25))
def test_no_message_is_too_broken(lines: list[bytes]) -> None:
    parsed = read(b"Subject: x\n" + b"\n".join(lines))
    text_of(parsed).encode()
    str(parsed.metadata).encode()
