"""How the weights of a new model begin. Nothing here imports Keras before a model is there."""

from keras_bert.program.errors import InputError

USUAL, MEGATRON = "bert", "megatron"


def check_initialization(initialization: str, init_checkpoint: object) -> None:
    """Raises `InputError` if there is a checkpoint, whose weights another initialisation would overwrite."""
    if initialization != USUAL and init_checkpoint:
        raise InputError(
            f"initialization={initialization} is for a new model, but the weights come from init_checkpoint, "
            f"{init_checkpoint}. Leave out one of the two."
        )


def scale_output_projections(model) -> None:
    """Gives the output projections of a new model the standard deviation `initializer_range / sqrt(2 * layers)`.

    They are the last dense layers of attention and of feed-forward parts, whose outputs are added to their inputs. Two
    for each layer make up the sum; so its variance does not grow with the number of layers. The initial kernels are
    scaled, so all others stay as they are. Encoders with rotary positions begin like this anyway.

    Args:
        model: a new task model. All its encoders are scaled, such as ELECTRA's generator and discriminator.

    Raises:
        InputError: an encoder has no layers, or layers of another form.

    Reference: Shoeybi et al., 2019, arXiv 1909.08053, section 3; Warner et al., 2024, arXiv 2412.13663, for ModernBERT.
    """
    from keras_bert.models.encoder_base import Encoder

    for encoder in (layer for layer in model._flatten_layers() if isinstance(layer, Encoder)):
        blocks, config = getattr(encoder, "blocks", ()), encoder.config
        if not blocks or not all(hasattr(block, "output_dense") for block in blocks):
            raise InputError(
                f"initialization={MEGATRON} scales the output projections of attention and feed-forward parts, which a "
                f"{config.model_type} does not have. Use initialization={USUAL}."
            )
        deviation = config.initializer_range / (2 * config.num_hidden_layers) ** 0.5
        for block in blocks:
            for dense in (block.attention.output_dense, block.output_dense):
                dense.kernel.assign(dense.kernel * (deviation / dense.kernel_initializer.stddev))
