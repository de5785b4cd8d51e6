"""Records tiny adapters of PEFT and a tiny bge-m3 with their outputs in `tests/adapter_golden`.

    python tests/parity/record_adapters.py adapters   # with torch 2.13, transformers 5.24, peft 0.21
    python tests/parity/record_adapters.py bge_m3     # with torch 2.13, transformers 4.57, FlagEmbedding 1.4

The adapters are loaded again before their outputs are recorded.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch

FOLDER = Path(__file__).parents[1] / "adapter_golden"
IDS = [[2, 7, 9, 11, 3], [2, 20, 21, 12, 3]]
SIZES = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
TEXTS = ["the cat sat on the mat", "a dog ran", "milk and a cat and zzz"]
WEIGHTS = (0.4, 0.2, 0.4)
PATTERNS = {
    "rank_pattern": {"layer.1.attention.self.query": 1, r"layer\.\d+\.output.dense": 3},
    "alpha_pattern": {"0.attention.self.query": 7, "attention.self.query": 4, "dense": 3.5},
}


def draw(model):
    """Gives all trained parameters random values."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.requires_grad:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3 + ("LayerNorm.weight" in name))


def record(name, **outputs):
    values = {key: np.asarray(array, np.float64).round(7).tolist() for key, array in outputs.items()}
    (FOLDER / f"{name}.json").write_text(json.dumps(values))


def record_adapters():
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import AutoModel, AutoModelForSequenceClassification, BertConfig, BertModel

    base = FOLDER / "base"
    model = BertModel(BertConfig(vocab_size=24, max_position_embeddings=8, num_labels=3, **SIZES))
    draw(model)
    model.save_pretrained(base)
    of_classifier = {"target_modules": ["query", "dense"], "bias": "all", "use_rslora": True, **PATTERNS}
    kinds = {
        "classifier": ("SEQ_CLS", AutoModelForSequenceClassification, of_classifier),
        "encoder": ("FEATURE_EXTRACTION", AutoModel, {"target_modules": ["word_embeddings", "value"]}),
    }
    for name, (task_type, model_class, settings) in kinds.items():
        config = LoraConfig(task_type=task_type, r=2, lora_alpha=3, init_lora_weights=False, **settings)
        adapted = get_peft_model(model_class.from_pretrained(base), config)
        draw(adapted)
        adapted.save_pretrained(FOLDER / name)
        (FOLDER / name / "README.md").unlink()
        settings_file = FOLDER / name / "adapter_config.json"
        values = json.loads(settings_file.read_text())
        settings_file.write_text(json.dumps({**values, "base_model_name_or_path": "owner/base"}))
        loaded = PeftModel.from_pretrained(model_class.from_pretrained(base), FOLDER / name).eval()
        with torch.no_grad():
            outputs = loaded(input_ids=torch.tensor(IDS), attention_mask=torch.ones(2, 5, dtype=torch.int64))
        record(name, outputs=outputs[0])


def record_bge_m3():
    from FlagEmbedding import BGEM3FlagModel
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

    folder = FOLDER / "bge_m3"
    folder.mkdir(parents=True)
    words = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran", "milk", "and", *"bcdefghijk"]
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *(f"▁{word}" for word in words), "▁", "<mask>"]
    tokenizer = Tokenizer(models.Unigram([(piece, -float(n)) for n, piece in enumerate(pieces)], unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    ends = [("<s>", 0), ("</s>", 2)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ends
    )
    names = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "unk_token": "<unk>"}
    names |= {"pad_token": "<pad>", "mask_token": "<mask>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=12, **names).save_pretrained(folder)
    settings_file = folder / "tokenizer_config.json"
    values = json.loads(settings_file.read_text())
    settings_file.write_text(json.dumps({**values, "tokenizer_class": "XLMRobertaTokenizer"}))
    config = XLMRobertaConfig(vocab_size=len(pieces), max_position_embeddings=14, type_vocab_size=1, **SIZES)
    model = XLMRobertaModel(config)
    draw(model)
    model.save_pretrained(folder)
    for name, size in (("colbert_linear", 8), ("sparse_linear", 1)):
        layer = torch.nn.Linear(8, size)
        draw(layer)
        layer.bias.data += 0.5
        torch.save(layer.state_dict(), folder / f"{name}.pt")
    modules = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    entries = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (kind, path) in enumerate(modules.items())
    ]
    (folder / "modules.json").write_text(json.dumps(entries))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    peer = BGEM3FlagModel(str(folder), use_fp16=False, devices="cpu")
    found = peer.encode(TEXTS, return_dense=True, return_sparse=True, return_colbert_vecs=True)
    sparse = np.zeros((len(TEXTS), len(pieces)))
    for row, weights in zip(sparse, found["lexical_weights"], strict=True):
        row[[int(token) for token in weights]] = list(weights.values())
    # One pair at a time: there, padding counts as a token with the score 0.
    pairs = [(query, text) for query in TEXTS[:2] for text in TEXTS]
    scores = peer.compute_score(pairs, batch_size=1, weights_for_different_modes=list(WEIGHTS))
    tokens = {f"tokens_{number}": vectors for number, vectors in enumerate(found["colbert_vecs"])}
    combined = np.reshape(scores["colbert+sparse+dense"], (2, 3))
    record("bge_m3", dense=found["dense_vecs"], sparse=sparse, scores=combined, **tokens)


if __name__ == "__main__":
    kind = sys.argv[1]
    for name in {"adapters": ("base", "classifier", "encoder"), "bge_m3": ("bge_m3",)}[kind]:
        shutil.rmtree(FOLDER / name, ignore_errors=True)
    record_adapters() if kind == "adapters" else record_bge_m3()
