"""The other side of `gpu_core`: `BertForPreTraining` of transformers, with torch's scaled_dot_product_attention.

It imports neither TensorFlow nor keras_bert. Training is as transformers' Trainer does it: bfloat16 autocast, gradients
clipped by their norm, fused AdamW without decay for biases and layer norms; nothing is compiled.
"""

import torch
import transformers

from benchmarks.gpu_core_work import answer_requests, arguments_of_side, random_batch
from benchmarks.transformers_finetuning import IGNORED_LABEL, decayed_and_other_weights


class Jobs:
    """The jobs of `answer_requests`."""

    def __init__(self, model, batch, device: torch.device, matmul_size: int):
        self.model = model.to(device)
        self.optimizer = torch.optim.AdamW(decayed_and_other_weights(model), lr=1e-4, fused=True)
        names = {"input_ids": "input_ids", "input_mask": "attention_mask", "segment_ids": "token_type_ids"}
        tensors = {name: torch.from_numpy(column).to(device, torch.int64) for name, column in batch.items()}
        self.inputs = {theirs: tensors[ours] for ours, theirs in names.items()}
        labels = torch.full_like(tensors["input_ids"], IGNORED_LABEL)
        labels.scatter_(1, tensors["masked_lm_positions"], tensors["masked_lm_ids"])
        self.labels = {"labels": labels, "next_sentence_label": tensors["next_sentence_labels"][:, 0]}
        self.device = device
        self.matrix = torch.randn(matmul_size, matmul_size, device=device).to(torch.bfloat16)

    def forward(self):
        self.model.eval()
        with torch.inference_mode(), torch.autocast(self.device.type, torch.bfloat16):
            return self.model(**self.inputs)

    def train(self):
        self.model.train()
        with torch.autocast(self.device.type, torch.bfloat16):
            loss = self.model(**self.inputs, **self.labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def matmul(self):
        return self.matrix @ self.matrix

    def wait(self, result):
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def main():
    arguments = arguments_of_side(__doc__)
    torch.manual_seed(1)
    # Our "gelu" is the tanh approximation.
    config = transformers.BertConfig(**arguments.config | {"hidden_act": "gelu_pytorch_tanh"})
    batch = random_batch(arguments.batch_size, arguments.length, arguments.predictions, config.vocab_size)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = transformers.AutoModelForPreTraining.from_config(config, attn_implementation="sdpa")
    jobs = Jobs(model, batch, device, arguments.matmul_size)
    about = {"side": f"transformers {transformers.__version__}, torch {torch.__version__}", "platform": "cpu"}
    about["device"] = "cpu"
    if device.type == "cuda":
        about |= {"platform": "gpu", "device": torch.cuda.get_device_name(device)}
    named = {"forward": jobs.forward, "train": jobs.train, "matmul": jobs.matmul}
    answer_requests(about, named, arguments.steps, jobs.wait)


if __name__ == "__main__":
    main()
