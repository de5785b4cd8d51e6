"""Megatron's initialisation: output projections begin with a smaller standard deviation, in all families."""

import keras
import numpy as np
import pytest
import tiny
import tiny_families
from pretraining_runs import pretrain

from keras_bert.program.errors import InputError
from keras_bert.tasks.masked_lm.model import MaskedLM
from keras_bert.tasks.pretraining.electra_pretrainer import ElectraPretrainer
from keras_bert.training.pretraining import scale_output_projections

CONFIG = tiny.config(30, num_hidden_layers=4)


def kernels_of(model):
    return {weight.path.split("/", 1)[1]: weight.value.numpy() for weight in model.weights}


def test_only_output_projections_are_scaled_by_the_number_of_layers():
    keras.utils.set_random_seed(1)
    before = kernels_of(MaskedLM(CONFIG))
    keras.utils.set_random_seed(1)
    model = MaskedLM(CONFIG)
    scale_output_projections(model)
    scaled = 0
    for name, values in kernels_of(model).items():
        is_output = name.endswith("output_dense/kernel")
        scaled += is_output
        np.testing.assert_allclose(values, before[name] / (8**0.5 if is_output else 1), rtol=1e-6, err_msg=name)
    assert scaled == 2 * 4


@pytest.mark.parametrize("family", ["modernbert", "neobert", "albert", "xlnet", "deberta-v2"])
def test_output_projections_of_other_families_begin_with_megatrons_deviation(family):
    model = tiny_families.new(MaskedLM, family)
    scale_output_projections(model)
    deviation = model.config.initializer_range / (2 * model.config.num_hidden_layers) ** 0.5
    for block in model.encoder.blocks:
        for dense in (block.attention.output_dense, block.output_dense):
            limit = 2 * deviation  # a truncated normal ends here
            assert 0.5 * limit < np.abs(dense.kernel.numpy()).max() <= limit * (1 + 1e-6)


def test_both_encoders_of_an_electra_are_scaled():
    model = ElectraPretrainer(tiny.config(30, initializer_range=0.9, hidden_size=32))
    scale_output_projections(model)
    for part in (model.generator, model.discriminator):
        assert np.abs(part.encoder.blocks[0].output_dense.kernel.numpy()).max() <= 0.9 * 2**0.5


def test_models_without_such_projections_and_checkpoints_are_refused(tmp_path):
    with pytest.raises(InputError, match="which a mobilebert does not have. Use initialization=bert"):
        scale_output_projections(tiny_families.new(MaskedLM, "mobilebert"))
    with pytest.raises(InputError, match="initialization=megatron is for a new model, but .* init_checkpoint, model"):
        pretrain(tmp_path / "run", "none", init_checkpoint="model", initialization="megatron")
