"""The side `transformers`: the model of transformers on torch, in inference mode, with SDPA attention."""

import torch
import transformers

from benchmarks.sides.answering import Encoder, answer


class TransformersEncoder(Encoder):
    def load(self, folder):
        self.model = transformers.AutoModel.from_pretrained(folder, attn_implementation="sdpa").eval()
        return f"transformers {transformers.__version__}, torch {torch.__version__}"

    def prepare(self, batch):
        names = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "segment_ids"}
        if getattr(self.model.config, "type_vocab_size", 0) < 2:
            del names["token_type_ids"]
        return {theirs: torch.from_numpy(batch[ours]).long() for theirs, ours in names.items()}

    def run(self, prepared):
        with torch.inference_mode():
            return self.model(**prepared).last_hidden_state


if __name__ == "__main__":
    answer(TransformersEncoder())
