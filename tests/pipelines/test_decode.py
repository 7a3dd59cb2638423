"""Bytes to text: encodings, line ends, binary data."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from kbsync.errors import SkipFile
from kbsync.pipelines.decode import decode, decoded
from kbsync.reasons import Reason

CHINESE = (
    "知识库会与文件夹保持同步。把文件放进去，几秒之内就能搜索到它的内容。移动、修改或删除文件以后，索引仍然是正确的。"
)
TRADITIONAL = (
    "知識庫會與資料夾保持同步。把檔案放進去，幾秒之內就能搜尋到它的內容。移動、修改或刪除檔案以後，索引仍然是正確的。"
)
JAPANESE = (
    "知識ベースはフォルダと同期されます。ファイルを入れると、数秒で検索できるようになります。"
    "移動や編集をしても、索引は正しいままです。"
)
KOREAN = (
    "지식 베이스는 폴더와 동기화됩니다. 파일을 넣으면 몇 초 안에 검색할 수 있습니다. "
    "파일을 옮기거나 고치거나 지워도 색인은 올바르게 유지됩니다."
)
RUSSIAN = (
    "База знаний всегда соответствует папкам. Положите файл, и через несколько секунд его текст можно найти. "
    "ВНИМАНИЕ: ничего не теряется."
)
UKRAINIAN = "База знань завжди відповідає папкам. Покладіть файл, і за кілька секунд його текст можна знайти."
GREEK = "Η βάση γνώσεων συμβαδίζει πάντα με τους φακέλους. Βάλτε ένα αρχείο και σε λίγο το κείμενό του θα βρεθεί."
FRENCH = "La base reste à jour : déposez un fichier, et son texte est trouvé. Été, hiver, où que vous soyez, déjà prêt."
GERMAN = (
    "Die Wissensdatenbank bleibt im Einklang. Größe, Änderungen und Übergänge werden geprüft; nichts geht verloren."
)
SPANISH = "La base se mantiene al día. ¿Qué pasa después? Mañana el señor encontrará la información en español."
POLISH = "Wrzuć plik, a po kilku sekundach jego treść można znaleźć. Żółć, gęś, źdźbło i łąka są też znalezione."
CZECH = "Příliš žluťoučký kůň úpěl ďábelské ódy. Znalostní báze je vždy v souladu se složkami."
TURKISH = (
    "Bilgi tabanı klasörlerinizle uyumlu kalır. Dosyayı bırakın, birkaç saniye içinde içeriği bulunabilir. Şimdi değil."
)

PARAGRAPHS = [
    *((CHINESE, encoding) for encoding in ("gb18030", "gbk", "utf-16-le", "utf-16-be", "utf-16", "utf-32", "utf-8")),
    *((TRADITIONAL, encoding) for encoding in ("big5", "cp950", "utf-16-le")),
    *((JAPANESE, encoding) for encoding in ("shift_jis", "cp932", "euc_jp", "iso2022_jp", "utf-16-be")),
    *((KOREAN, encoding) for encoding in ("euc_kr", "cp949", "utf-16-le")),
    *((RUSSIAN, encoding) for encoding in ("koi8_r", "cp1251", "cp866", "iso8859_5", "utf-16-be")),
    *((UKRAINIAN, encoding) for encoding in ("koi8_u", "cp1251")),
    *((GREEK, encoding) for encoding in ("cp1253", "iso8859_7")),
    *((FRENCH, encoding) for encoding in ("latin_1", "cp1252", "utf-16-le", "utf-32-be", "utf-8-sig")),
    (GERMAN, "latin_1"),
    (SPANISH, "latin_1"),
    *((POLISH, encoding) for encoding in ("cp1250", "iso8859_2")),
    (CZECH, "cp1250"),
    (TURKISH, "cp1254"),
]


@pytest.mark.parametrize(("text", "encoding"), PARAGRAPHS, ids=lambda value: value[:8])
def test_a_paragraph_comes_out_right_in_every_encoding(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize(("text", "encoding"), PARAGRAPHS, ids=lambda value: value[:8])
def test_a_paragraph_among_english_and_code_comes_out_right(text: str, encoding: str) -> None:
    document = f"# Notes 2024\n\n```python\nprint('x')\n```\n\nThe deployment of the server.\n\n{text}\n"
    assert decode(document.encode(encoding)) == document


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        *((CHINESE, encoding) for encoding in ("gb18030", "utf-16-le", "utf-16-be")),
        (TRADITIONAL, "big5"),
        *((JAPANESE, encoding) for encoding in ("shift_jis", "euc_jp")),
        (KOREAN, "euc_kr"),
        *((RUSSIAN, encoding) for encoding in ("koi8_r", "cp1251")),
        *((text, "latin_1") for text in (FRENCH, GERMAN, SPANISH)),
    ],
    ids=lambda value: value[:8],
)
def test_a_single_clause_is_enough(text: str, encoding: str) -> None:
    clauses = [clause for clause in re.split(r"(?<=[。.?])\s*|，|、|, ", text) if len(clause) > 4]
    assert len(clauses) > 2
    assert [decode(clause.encode(encoding)) for clause in clauses] == clauses


@pytest.mark.parametrize("encoding", ["cp850", "mac_roman"])
def test_an_encoding_that_is_set_decides_where_the_bytes_leave_doubt(samples: Path, encoding: str) -> None:
    sentences = (samples / "sentences" / "french.txt").read_text("utf-8").splitlines()
    assert [decoded(text.encode(encoding), preferred=(encoding,)).text for text in sentences] == sentences
    assert [decode(text.encode(encoding)) for text in sentences] != sentences


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("ירושלים היא עיר הבירה של ישראל ויש בה אתרים רבים.", "cp1255"),
        ("ירושלים היא עיר הבירה של ישראל ויש בה אתרים רבים.", "iso8859_8"),
        ("กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย มีวัดและพระราชวังที่สวยงามมากมาย", "cp874"),
        ("القاهرة هي عاصمة جمهورية مصر العربية وأكبر مدنها.", "cp1256"),
    ],
    ids=lambda value: value[:8],
)
def test_an_encoding_of_any_script_is_used_where_it_is_set(text: str, encoding: str) -> None:
    assert decoded(text.encode(encoding), preferred=(encoding,)).text == text


@pytest.mark.parametrize(
    "preferred",
    [
        "cp1255",
        "cp874",
        "cp1256",
        "shift_jis",
        "gb18030",
        "big5",
        "euc_kr",
        "euc_jp",
        "koi8-r",
        "cp1252",
        "cp850",
        "cp1253",
        "mac-roman",
    ],
)
@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (CHINESE, "gb18030"),
        (TRADITIONAL, "big5"),
        (JAPANESE, "shift_jis"),
        (JAPANESE, "euc_jp"),
        (KOREAN, "euc_kr"),
        (RUSSIAN, "koi8_r"),
        (RUSSIAN, "cp1251"),
        (GREEK, "cp1253"),
    ],
    ids=lambda value: value[:8],
)
def test_an_encoding_that_is_set_does_not_outvote_what_the_bytes_say(text: str, encoding: str, preferred: str) -> None:
    assert decoded(text.encode(encoding), preferred=(preferred,)).text == text


@pytest.mark.parametrize("missing", ["utf-8 \ud800 alone", "\udc00", "plain \ud83d"])
def test_half_a_pair_of_surrogates_is_replaced_and_the_rest_stays(missing: str) -> None:
    text = decode(f"Grüße 😀 {missing} end".encode("utf-8", "surrogatepass"))
    assert text == f"Grüße 😀 {missing} end".encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text.encode("utf-8")


def test_a_pair_of_surrogates_written_as_two_characters_is_the_character() -> None:
    assert decode("a \ud83d\ude00 b".encode("utf-8", "surrogatepass")) == "a 😀 b"


def test_a_log_that_begins_with_a_hole_is_read_behind_it() -> None:
    assert decode(bytes(1_000_000) + b"the line after\n") == "the line after\n"


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"plain", "utf-8"),
        (b"\xef\xbb\xbfmarked", "utf-8"),
        ("Grüße".encode("utf-16"), "utf-16-le"),
        (CHINESE.encode("gbk"), "gb18030"),
        (TRADITIONAL.encode("big5"), "cp950"),
        (JAPANESE.encode("iso2022_jp"), "iso2022_jp"),
        (RUSSIAN.encode("koi8_r"), "koi8-r"),
        (FRENCH.encode("latin_1"), "cp1252"),
    ],
)
def test_the_encoding_is_told_by_pythons_name(data: bytes, encoding: str) -> None:
    assert decoded(data).encoding == encoding


def test_one_broken_byte_does_not_make_utf8_another_encoding() -> None:
    text = decode(CHINESE.encode() + b"\xff" + "结束".encode())
    assert text == f"{CHINESE}\ufffd结束"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\r\nb\rc\nd", "a\nb\nc\nd"),
        (b"a\r\r\nb", "a\n\nb"),
        ("a\u2028b\nc".encode(), "a\u2028b\nc"),
        (b"a\x00b\x00", "ab"),
        (b"\xef\xbb\xbfa", "a"),
        (b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
    ],
)
def test_line_ends_are_one_and_nuls_are_gone(data: bytes, text: str) -> None:
    assert decode(data) == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"the crab\x00 apple \x00is sour", "the crab  apple  is sour"),
        (b"name\x00value\x00other\x00", "name value other "),
        (b"abc\x00def\x00", "abc def "),
        (b"one\x00two three four five", "one two three four five"),
        (b"a sour apple\x00\x00\x00\x00", "a sour apple "),
    ],
)
def test_nuls_between_words_are_no_utf16_and_keep_the_words_apart(data: bytes, text: str) -> None:
    assert decode(data) == text


@pytest.mark.parametrize("text", ["Привет, мир", "He said “no” … • one • two", "§ 5: naïve café", "ab"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_short_utf16_without_a_mark_is_read_also_where_its_bytes_are_valid_utf8(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "gb18030", "utf-32"])
@pytest.mark.parametrize("missing", [1, 2, 3])
def test_data_cut_inside_a_character_lose_only_that_character(encoding: str, missing: int) -> None:
    text = decode((CHINESE * 3).encode(encoding)[:-missing], cut=True)
    assert (CHINESE * 3).startswith(text)
    assert len(text) >= len(CHINESE * 3) - 3


@pytest.mark.parametrize(
    "data",
    [
        random.Random(7).randbytes(200),
        random.Random(7).randbytes(50_000),
        b"\x89PNG\r\n\x1a\n" + b"IHDR",
        b"%PDF-1.7\n1 0 obj",
        b"PK\x03\x04" + b"a" * 100,
        b"name\x00\x00\x00\x00\x00\x00size\x00\x00\x00\x00\x00" * 40,
        bytes(range(1, 9)) * 100,
    ],
    ids=["few random", "random", "png", "pdf", "zip", "nul-padded", "controls"],
)
def test_binary_data_is_refused_as_binary(data: bytes) -> None:
    with pytest.raises(SkipFile) as refused:
        decode(data)
    assert refused.value.reason is Reason.BINARY


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n", b"\xef\xbb\xbf", "\u200b\u00a0\n".encode(), b"\x00\x00"])
def test_what_has_nothing_visible_is_empty(data: bytes) -> None:
    with pytest.raises(SkipFile) as refused:
        decode(data)
    assert refused.value.reason is Reason.EMPTY
