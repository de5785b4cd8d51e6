"""Transformers reads the SentencePiece tokenizers that this package writes, and gives the same ids."""

import json
import subprocess

import pytest
from recorded_folders import recorded_folder

from keras_bert import SentencePieceTokenizer, load_vocabulary
from keras_bert.tokenization.added_tokens import AddedToken

PROGRAM = """
import json, sys
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
texts = json.load(sys.stdin)
rows = [tokenizer(text, add_special_tokens=False).input_ids for text in texts]
print(json.dumps([rows, tokenizer(*texts[:2]).input_ids, tokenizer.mask_token_id, len(tokenizer)]))
"""
TEXTS = ["In 2010, it's 10,5.", "Москва 日本語", "a<e1>b zed zed", "Café – naïve", "  two  spaces "]


@pytest.mark.parametrize("name", ["xlm-roberta", "xlm-roberta-v5", "camembert", "camembert-v5", "deberta-v2"])
def test_transformers_reads_what_is_written(transformers_python, tmp_path, name):
    read = load_vocabulary(recorded_folder("tokenizers", name))
    added = (AddedToken("<e1>", normalized=False, special=True), AddedToken("zed zed", normalized=False))
    ours = SentencePieceTokenizer(read.model, read.special_tokens, False, added_tokens=added, form=read.form)
    ours.save(tmp_path)
    command = [transformers_python, "-c", PROGRAM, str(tmp_path)]
    result = subprocess.run(command, input=json.dumps(TEXTS), capture_output=True, text=True, check=True)
    rows, pair, mask, size = json.loads(result.stdout.splitlines()[-1])
    assert rows == [ours.encode(text) for text in TEXTS]
    between = [ours.sep_id] * ours.special_tokens.num_between
    assert pair == [ours.cls_id, *rows[0], *between, *rows[1], ours.sep_id]
    assert (mask, size) == (ours.mask_id, len(ours))
