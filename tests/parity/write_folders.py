"""Writes `tests/family_golden/folders.tar.xz` with transformers and sentence-transformers; then see record_folders.py.

    HF_HUB_OFFLINE=1 python tests/parity/write_folders.py

It was run with transformers 5.23, tokenizers 0.23.3, sentence-transformers 6.2 and torch 2.13. The models of `heads/`
have the weights of `weights_of`. Of `tokenizers/`, the forms that transformers 5 writes are written again. The others
are kept: models that were trained on paragraphs of Wikipedia, with the settings of published models, model files alone
or in the form of transformers 4.
"""

import json
import pathlib
import shutil
import string
import sys
import tempfile

import numpy as np
import torch
import transformers
from sentence_transformers import CrossEncoder, MultiVectorEncoder, SparseEncoder
from sentence_transformers.base.modules import Dense, Normalize, Router, Transformer
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding, SpladePooling

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from family_folders import weights_of
from recorded_folders import ARCHIVE, pack, recorded_folder

SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
SIZES |= {"max_position_embeddings": 64, "vocab_size": 75}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]", "[Q]", "[D]"]
WORDS = [*".,!?-'", *string.ascii_lowercase, *(f"##{letter}" for letter in string.ascii_lowercase)]
WORDS += ["the", "what", "is", "of", "capital", "france", "paris", "city"]
ENTAILMENT = ["entailment", "neutral", "contradiction"]
# The folder that transformers 5 reads -> the one that it writes.
WRITTEN = {"xlm-roberta": "xlm-roberta-v5", "camembert": "camembert-v5", "deberta-v2": "deberta-v2-v5"}


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        write_heads(folder / "heads")
        shutil.copytree(recorded_folder("tokenizers"), folder / "tokenizers", copy_function=shutil.copyfile)
        for old, new in WRITTEN.items():
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "tokenizers" / old)
            tokenizer.save_pretrained(folder / "tokenizers" / new)
        pack(folder, ARCHIVE)


def write_heads(folder):
    """Writes tiny models for tasks as transformers and sentence-transformers save them."""
    bert = folder / "bert"
    save_bert(bert, "MaskedLM")
    save_bert(folder / "nli_entail_first", "SequenceClassification", ENTAILMENT)
    save_bert(folder / "nli_entail_last", "SequenceClassification", ENTAILMENT[::-1])
    for name, labels in (("ce1", ["LABEL_0"]), ("ce3", ["LABEL_0", "LABEL_1", "LABEL_2"])):
        save_bert(folder / name, "SequenceClassification", labels)
        CrossEncoder(str(folder / name), device="cpu").save_pretrained(str(folder / f"{name}s"))
    modules = [masked_lm(bert), SpladePooling("max", embedding_dimension=SIZES["vocab_size"])]
    SparseEncoder(modules=modules, device="cpu", similarity_fn_name="dot").save_pretrained(str(folder / "splade"))
    weights = torch.tensor(np.linspace(0.1, 3, SIZES["vocab_size"], dtype="float32"))
    queries = SparseStaticEmbedding(transformers.AutoTokenizer.from_pretrained(bert), weights)
    routes = Router.for_query_document([queries], [masked_lm(bert), SpladePooling("max", "log1p_relu")])
    SparseEncoder(modules=[routes], device="cpu").save_pretrained(str(folder / "inference_free"))
    expansion = {"strategy": "fixed", "attend": False, "token": None, "length": 16}
    modules = [
        Transformer(str(bert), query_length=16, document_length=32, query_expansion=expansion),
        Dense(24, 12, bias=False, activation_function=torch.nn.Identity(), module_input_name="token_embeddings"),
        Normalize("token_embeddings"),
        MultiVectorMask(list(string.punctuation), skiplist_tasks=["document"]),
    ]
    draw_weights(modules[0])  # the masked LM has no pooler
    draw_weights(modules[1])
    prompts = {"query": "[Q] ", "document": "[D] "}
    model = MultiVectorEncoder(modules=modules, prompts=prompts, similarity_fn_name="maxsim", device="cpu")
    model.encode_query("paris")  # as above: a used one
    model.save_pretrained(str(folder / "colbert"))
    for part in (bert, folder / "ce3"):
        shutil.rmtree(part)
    for page in folder.rglob("README.md"):
        page.unlink()


def save_bert(folder, head, labels=None):
    config = transformers.BertConfig(**SIZES)
    if labels:
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: number for number, label in enumerate(labels)}
    model = getattr(transformers, f"BertFor{head}")(config)
    draw_weights(model)
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in SPECIAL + WORDS))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, model_max_length=64)
    tokenizer(["paris", "city"], padding=True, truncation=True)  # the file of a used one has both settings
    tokenizer.save_pretrained(folder)
    (folder / "vocab.txt").unlink()


def draw_weights(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.tensor(2 * weights_of(name, tuple(parameter.shape))))


def masked_lm(folder):
    return Transformer(str(folder), transformer_task="fill-mask")


if __name__ == "__main__":
    main()
