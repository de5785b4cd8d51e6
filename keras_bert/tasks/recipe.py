"""The paper's recipe for fine-tuning, the default for models that the user has not compiled."""

from keras_bert.optimization import AdamW, OneFitDecay

# One of the learning rates, and the warm-up, of Devlin et al., 2018, section A.3.
LEARNING_RATE = 5e-5
_WARMUP_PROPORTION = 0.1


def recipe_optimizer(num_batches: int, epochs: int, initial_epoch: int = 0, learning_rate: float = LEARNING_RATE):
    """Returns an `AdamW` whose rate rises for a tenth of the updates of one `fit` and then falls to 0.

    Args:
        num_batches: updates in an epoch.
        epochs, initial_epoch: as in `keras.Model.fit`, which trains for `epochs - initial_epoch` epochs.
        learning_rate: the peak rate.
    """
    num_steps = max(1, num_batches * (epochs - initial_epoch))
    return AdamW(OneFitDecay(learning_rate, num_steps, int(num_steps * _WARMUP_PROPORTION)))


def compile_for_texts(model, num_batches: int, epochs: int, initial_epoch: int = 0) -> None:
    """Compiles a model for one `fit` on texts; the arguments are those of `recipe_optimizer`.

    A model that the user has compiled keeps its optimizer. Any other model gets a new one in each `fit`, since the rate
    of the previous optimizer has fallen to 0. XLA is disabled, even if `compile` enabled it: it would compile anew for
    each batch length.
    """
    if not model.compiled or model.is_compiled_for_one_fit:
        with model.distribute_strategy.scope():
            model.compile(optimizer=recipe_optimizer(num_batches, epochs, initial_epoch), jit_compile=False)
    model.jit_compile = False
