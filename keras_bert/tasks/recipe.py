"""The paper's recipe for fine-tuning, for models that their user has not compiled."""

from keras_bert.optimization import AdamW, OneFitDecay

# Devlin et al., 2018, section A.3: one of its learning rates, and its warm-up.
LEARNING_RATE = 5e-5
_WARMUP_PROPORTION = 0.1


def recipe_optimizer(num_batches: int, epochs: int, initial_epoch: int = 0, learning_rate: float = LEARNING_RATE):
    """Returns an `AdamW` whose rate rises for a tenth of the updates of one `fit` and then falls to 0.

    Args:
        num_batches: updates in an epoch.
        epochs, initial_epoch: as `keras.Model.fit` takes them: it trains for `epochs - initial_epoch` epochs.
    """
    num_steps = max(1, num_batches * (epochs - initial_epoch))
    return AdamW(OneFitDecay(learning_rate, num_steps, int(num_steps * _WARMUP_PROPORTION)))


def compile_for_texts(model, num_batches: int, epochs: int, initial_epoch: int = 0) -> None:
    """Compiles a model for one `fit` on texts; the arguments are those of `recipe_optimizer`.

    The optimizer of a model that its user has compiled stays. Any other model gets a new one, also when an earlier
    `fit` gave it one: the rate of that has fallen to 0. XLA is switched off, whatever `compile` was told: it would
    compile anew for each of the many lengths of batches.
    """
    if not model.compiled or model.is_compiled_for_one_fit:
        with model.distribute_strategy.scope():
            model.compile(optimizer=recipe_optimizer(num_batches, epochs, initial_epoch), jit_compile=False)
    model.jit_compile = False
