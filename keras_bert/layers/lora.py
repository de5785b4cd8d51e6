"""The kernel of a dense layer with LoRA.

Reference: Hu et al., 2021, arXiv 2106.09685.
"""

import numpy as np
from keras import ops


def merged_kernel(layer) -> np.ndarray:
    """Returns W + alpha / rank * A B of a layer with LoRA, `[in, out]`, in the dtype of W."""
    kernel, a, b = (
        ops.convert_to_numpy(weight) for weight in (layer._kernel, layer.lora_kernel_a, layer.lora_kernel_b)
    )
    # In float64, so that only the final cast rounds.
    product = a.astype(np.float64) @ b.astype(np.float64)
    return (kernel.astype(np.float64) + layer.lora_alpha / layer.lora_rank * product).astype(kernel.dtype)
