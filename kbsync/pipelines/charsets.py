"""Which legacy encoding a text is in: candidates that decode are ranked by how common their characters are."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from functools import cache

SAMPLE_BYTES = 65_536  # enough for any ranking; the rest of a large file is not decoded nine times

_HANZI_SIMPLIFIED = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去"
    "法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知全三又关点"
    "正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿"
    "原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管期市直德资"
)
_HANZI_TRADITIONAL = frozenset(
    "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作里用道行所然家種事成方多經麼去"
    "法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實日軍者意無力它與長把機十民第公此已工使情明性知全三又關點"
    "正業外將兩高間由問很最重並物手應戰向頭文體政美相見被利什二等產或新己制身果加西斯月話合回特代內信表化老給世位次度門任常先海通教兒"
    "原東聲提立及比員解水名真論處走義各入幾口認條平系氣題活爾更別打女變四神總何電數安少報才結反受目太量再感建務做接必場件計管期市直德資"
)
_HANGUL = frozenset(
    "이다는을를에의가고하지은한로도기사자인서나어시그대있리라아수일으정해들보만스것게여부장전주상구제과면원없동조비화"
    "려니적소우유공성국내개연치신경위안생문선물와때모무방산회중까마음될된되할합니습했였었던요거말년월오미세분당방관간용바"
    "며데더영금단업실현식법학작행진체계트터러르드처남외반명발결교등여울알파야람글입출력색검터"
)
_RUSSIAN = dict.fromkeys("оеаинтсрвл", 1.0) | dict.fromkeys("кмдпуяыьгзіїє", 0.5)
_GREEK = dict.fromkeys("αοιετσνηυρκπ", 1.0) | dict.fromkeys("μλςίόάέωγήδθύώ", 0.6)
_HEBREW = dict.fromkeys("יוהלאבמתרשנ", 1.0) | dict.fromkeys("דעקפחכגטזסצםןךףץ", 0.6)
_HEBREW_ENDS = frozenset("םןךףץ")  # no letter follows them
_THAI_BEFORE = frozenset("เแโใไ")  # vowels written before their consonant
_THAI_ABOVE = frozenset("ัิีึืุู็่้๊๋์ํำ")  # vowels and tones written on top of it, or below
_THAI_TONES = frozenset("่้๊๋์ำ")
_WESTERN = dict.fromkeys("éèàçêâîôûùëïœæåäöüßñáíóúãõ¿¡", 0.9) | dict.fromkeys("ìòøšž", 0.6)
_CENTRAL = dict.fromkeys("ąęłśżźćńčěřšůžýőűťďňáéíóúöüäâîôăşţ", 0.9) | dict.fromkeys("ëç", 0.5)
_TURKISH = dict.fromkeys("ğışöüçâî", 0.9)
_TYPOGRAPHY = frozenset("“”‘’—–…·«»№°§€©®™•„\u00a0")
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_OUTSIDE_ASCII = re.compile(r"[^\x00-\x7f]")


@cache
def _block(encoding: str, first_row: int, last_row: int, columns: tuple[tuple[int, int], ...]) -> frozenset[str]:
    """Return the characters that a double-byte encoding keeps in these rows: its own list of the common ones."""
    rows = range(first_row, last_row + 1)
    cells = [column for low, high in columns for column in range(low, high + 1)]
    return frozenset(bytes((row, cell)).decode(encoding, "ignore") for row in rows for cell in cells)


def _wide_punctuation(char: str) -> bool:
    return "\u3000" <= char <= "\u303f" or "\uff01" <= char <= "\uff60" or char in _TYPOGRAPHY


def _kana(char: str) -> bool:
    return "\u3041" <= char <= "\u30fe"


def _foreign(char: str) -> float:
    """Score what no text of an East Asian language is made of."""
    return -2.0 if "\ue000" <= char <= "\uf8ff" else -0.3


def _chinese(char: str, common: frozenset[str], first_level: frozenset[str]) -> float:
    if char in common:
        return 1.0
    if char in first_level:
        return 0.5
    if _wide_punctuation(char):
        return 0.5
    if "\u3400" <= char <= "\u9fff":
        return 0.05
    return _foreign(char)


def _simplified(char: str, before: str, after: str) -> float:
    return _chinese(char, _HANZI_SIMPLIFIED, _block("gb2312", 0xB0, 0xD7, ((0xA1, 0xFE),)))


def _traditional(char: str, before: str, after: str) -> float:
    return _chinese(char, _HANZI_TRADITIONAL, _block("big5", 0xA4, 0xC6, ((0x40, 0x7E), (0xA1, 0xFE))))


def _japanese(char: str, before: str, after: str) -> float:
    if _kana(char):
        return 1.0
    if char in _block("euc_jp", 0xB0, 0xCF, ((0xA1, 0xFE),)):
        return 0.45
    if _wide_punctuation(char):
        return 0.5
    if "\u4e00" <= char <= "\u9fff":
        return 0.05
    return _foreign(char)


def _korean(char: str, before: str, after: str) -> float:
    if char in _HANGUL:
        return 1.0
    if char in _block("euc_kr", 0xB0, 0xC8, ((0xA1, 0xFE),)):
        return 0.55
    if _wide_punctuation(char):
        return 0.5
    if "\uac00" <= char <= "\ud7a3":
        return 0.05
    return _foreign(char)


def _alphabet(char: str, before: str, after: str, letters: dict[str, float], first: str, last: str) -> float:
    """Score a letter by how common it is; capitals inside a word and mixes with Latin letters tell a wrong guess."""
    if not first <= char <= last:
        return 0.5 if char in _TYPOGRAPHY else -0.5
    if _ascii_letter(before) or _ascii_letter(after):
        return -0.5
    if not (first <= before <= last or first <= after <= last):
        return 0.4  # a letter alone; in a text of another alphabet it is an accented one of that
    if char.isupper():
        return -1.5 if before.islower() else 0.85 * letters.get(char.lower(), 0.1)
    return letters.get(char, 0.1)


def _russian(char: str, before: str, after: str) -> float:
    return _alphabet(char, before, after, _RUSSIAN, "\u0400", "\u045f")


def _greek(char: str, before: str, after: str) -> float:
    return _alphabet(char, before, after, _GREEK, "\u0386", "\u03ce")


def _hebrew(char: str, before: str, after: str) -> float:
    if char in _HEBREW_ENDS and "\u05d0" <= after <= "\u05ea":
        return -1.5
    return _alphabet(char, before, after, _HEBREW, "\u05b0", "\u05ea")


def _thai(char: str, before: str, after: str) -> float:
    """Score a letter by where it stands: of bytes that are another language, many stand where no Thai letter does."""
    if not "\u0e01" <= char <= "\u0e59":
        return 0.5 if char in _TYPOGRAPHY else -0.5
    if char in _THAI_BEFORE:
        return 0.8 if "\u0e01" <= after <= "\u0e2e" else -1.5
    if char in _THAI_ABOVE:
        bears = "\u0e01" <= before <= "\u0e2e" or (char in _THAI_TONES and before in _THAI_ABOVE)
        return 0.8 if bears else -1.5
    return 0.7 if "\u0e01" <= char <= "\u0e46" else 0.0


def _ascii_letter(char: str) -> bool:
    return char.isascii() and char.isalpha()


def _latin(char: str, before: str, after: str, letters: dict[str, float]) -> float:
    """Score an accented letter, which stands beside plain ones and is no capital inside a word."""
    if char in _TYPOGRAPHY:
        return 0.5
    if not char.isalpha() and char not in letters:
        return 0.0 if char.isprintable() else -1.0
    if char.isupper() and before.islower():
        return -0.3
    score = letters.get(char.lower()[0], 0.2)
    if _ascii_letter(before) or _ascii_letter(after):
        return score
    if before in letters or after in letters:
        return 0.6 * score
    return -0.3 if before.isalpha() or after.isalpha() else 0.5


def _western(char: str, before: str, after: str) -> float:
    return _latin(char, before, after, _WESTERN)


def _central(char: str, before: str, after: str) -> float:
    return _latin(char, before, after, _CENTRAL)


def _turkish(char: str, before: str, after: str) -> float:
    return _latin(char, before, after, _TURKISH)


_CANDIDATES: tuple[tuple[str, Callable[[str, str, str], float]], ...] = (
    ("gb18030", _simplified),
    ("cp950", _traditional),
    ("cp932", _japanese),
    ("euc_jp", _japanese),
    ("cp949", _korean),
    ("cp1251", _russian),
    ("koi8_r", _russian),
    ("koi8_u", _russian),
    ("cp866", _russian),
    ("iso8859_5", _russian),
    ("cp1253", _greek),
    ("cp1252", _western),
    ("cp1250", _central),
    ("iso8859_2", _central),
    ("cp1254", _turkish),
)
# Hebrew and Thai are told only where an encoding is set: a few Russian or Arabic words look too much like them.
_ALPHABETS = (_russian, _greek, _western, _central, _turkish, _hebrew, _thai)
# Double-byte encodings hold each other's scripts: kana are in GB 18030, and no Chinese text is made of them.
_FAMILIES = (
    *((prefix, (_simplified,)) for prefix in ("gb",)),
    *((prefix, (_traditional,)) for prefix in ("big5", "cp950")),
    *((prefix, (_japanese,)) for prefix in ("shift", "cp932", "euc_j")),
    *((prefix, (_korean,)) for prefix in ("euc_k", "cp949", "johab")),
)
_WIDE = tuple(
    (name, judge) for name in ("utf-16-le", "utf-16-be") for judge in (_simplified, _traditional, _japanese, _korean)
)
_CONVINCING = 0.3  # below it no candidate's characters look like a text of its language
_CONVINCING_WIDE = 0.45  # any bytes are some characters of UTF-16
_LEAD = 0.2  # of an encoding that is set in the configuration
_UNDECODABLE = -1.0


def legacy_encoding(data: bytes, preferred: tuple[str, ...] = (), *, cut: bool = False) -> str:
    """Return the Python name of the most likely encoding of a text that is not Unicode. Never fails.

    `preferred` ones start with a lead. Of candidates that are as likely the first one of the list wins.
    """
    sample = _sample(data)
    cut = cut or len(sample) == SAMPLE_BYTES
    scores = {name: _score(sample, name, judge, cut=cut) for name, judge in _CANDIDATES}
    wanted = {name: _best_score(sample, name, cut=cut) for name in preferred}
    scores |= {name: score + _LEAD for name, score in wanted.items() if score > _UNDECODABLE}
    best = max(scores, key=lambda name: scores[name])
    if scores[best] >= _CONVINCING:
        return best
    for name, score in wanted.items():
        if score > _UNDECODABLE:
            return name
    import charset_normalizer  # seldom needed, and slow to load

    match = charset_normalizer.from_bytes(sample).best()
    return match.encoding if match else "latin_1"


def wide_encoding(data: bytes) -> str | None:
    """Return UTF-16 in its byte order where the bytes are an East Asian text in it, without a mark."""
    sample = data[:SAMPLE_BYTES]
    score, name = max((_score(sample, name, judge, cut=True), name) for name, judge in _WIDE)
    if score < _CONVINCING_WIDE:
        return None
    if _CONTROLS.search(sample):
        return name  # half a character of UTF-16, and in no other text
    # A short word of a single-byte encoding is often two or three common characters of UTF-16 too.
    legacy = max(_score(sample, other, judge, cut=True) for other, judge in _CANDIDATES)
    return name if score > legacy else None


def _sample(data: bytes) -> bytes:
    """Return a stretch that begins at the line of the first byte outside ASCII."""
    first = next((match.start() for match in re.finditer(rb"[\x80-\xff]", data)), 0)
    start = max(data.rfind(b"\n", 0, first) + 1, first - SAMPLE_BYTES // 2)
    return data[start : start + SAMPLE_BYTES]


def _best_score(sample: bytes, encoding: str, *, cut: bool) -> float:
    """Score an encoding by its language; for a single-byte one, by that which its characters look most like."""
    judges = next((judges for prefix, judges in _FAMILIES if encoding.startswith(prefix)), _ALPHABETS)
    return max(_score(sample, encoding, judge, cut=cut) for judge in judges)


def _score(sample: bytes, encoding: str, judge: Callable[[str, str, str], float], *, cut: bool) -> float:
    try:
        text = codecs.getincrementaldecoder(encoding)("strict").decode(sample, not cut)
    except UnicodeDecodeError:
        return _UNDECODABLE
    padded = f" {text} "
    scores = [
        judge(match.group(), padded[match.start() - 1], padded[match.end()])
        for match in _OUTSIDE_ASCII.finditer(padded)
    ]
    return sum(scores) / len(scores) if scores else 0.0
