"""The side `transformers`: the model of transformers on torch, in inference mode, with SDPA attention."""

import torch
import transformers

from benchmarks.sides.answering import Encoder, answer


class TransformersEncoder(Encoder):
    def load(self, folder):
        config = transformers.AutoConfig.from_pretrained(folder)
        self.has_global_tokens = config.model_type == "longformer"
        attention = "eager" if self.has_global_tokens else "sdpa"
        self.model = transformers.AutoModel.from_pretrained(folder, attn_implementation=attention).eval()
        return f"transformers {transformers.__version__}, torch {torch.__version__}"

    def prepare(self, batch):
        names = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "segment_ids"}
        if getattr(self.model.config, "type_vocab_size", 0) < 2:
            del names["token_type_ids"]
        inputs = {theirs: torch.from_numpy(batch[ours]).long() for theirs, ours in names.items()}
        if self.has_global_tokens:  # the first, as in ours
            inputs["global_attention_mask"] = torch.zeros_like(inputs["input_ids"])
            inputs["global_attention_mask"][:, 0] = 1
        return inputs

    def run(self, prepared):
        with torch.inference_mode():
            return self.model(**prepared).last_hidden_state


if __name__ == "__main__":
    answer(TransformersEncoder())
