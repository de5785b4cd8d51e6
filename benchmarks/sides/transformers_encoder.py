"""The side `transformers`: the model of transformers on torch, in inference mode. Its attention is SDPA if the family
has that.

It runs on a GPU if torch finds one. --dtype=bfloat16 converts its weights.
"""

import torch
import transformers

from benchmarks.sides.answering import Encoder, answer, dtype_of_side

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class TransformersEncoder(Encoder):
    def load(self, folder):
        config = transformers.AutoConfig.from_pretrained(folder)
        self.has_global_tokens = config.model_type == "longformer"
        self.model = transformers.AutoModel.from_pretrained(folder).eval()
        self.model.to(DEVICE, getattr(torch, dtype_of_side()))
        return f"transformers {transformers.__version__}, torch {torch.__version__}"

    def prepare(self, batch):
        names = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "segment_ids"}
        if getattr(self.model.config, "type_vocab_size", 0) < 2:
            del names["token_type_ids"]
        inputs = {theirs: torch.from_numpy(batch[ours]).long().to(DEVICE) for theirs, ours in names.items()}
        if self.has_global_tokens:  # the first, as in ours
            inputs["global_attention_mask"] = torch.zeros_like(inputs["input_ids"])
            inputs["global_attention_mask"][:, 0] = 1
        return inputs

    def run(self, prepared):
        with torch.inference_mode():
            vectors = self.model(**prepared).last_hidden_state
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        return vectors

    def to_numpy(self, outputs, batch):
        return outputs.float().cpu().numpy()


if __name__ == "__main__":
    answer(TransformersEncoder())
