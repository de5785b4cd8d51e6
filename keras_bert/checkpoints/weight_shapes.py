"""The names and shapes of the weights that a config requires, and checks that a checkpoint has them."""

from collections.abc import Sequence

from keras_bert.checkpoints.checkpoint import (
    CLASSIFIER,
    ENCODER,
    EXTRA_OUTPUT_EMBEDDINGS,
    HEADS,
    MASK_EMBEDDING,
    MASKED_LM,
    MULTIPLE_CHOICE,
    NEXT_SENTENCE,
    OUTPUT_BIAS,
    OUTPUT_EMBEDDINGS,
    POOLER,
    POSITION_EMBEDDINGS,
    REPLACED_TOKEN,
    SPAN_CLASSIFIER,
    TOKEN_EMBEDDINGS,
    WEIGHT_TYPES,
    BertCheckpoint,
    part_of,
)
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError


def encoder_shapes(config: BertConfig) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape of all weights of the encoder, including the pooler."""
    return _SHAPES_OF_FAMILY.get(config.model_type, _bert_encoder)(config)


def _bert_encoder(config: BertConfig) -> dict[str, tuple[int, ...]]:
    width, inner = config.hidden_size, config.intermediate_size
    shapes = {
        TOKEN_EMBEDDINGS: (config.vocab_size, config.embedding_size),
        POSITION_EMBEDDINGS: (config.max_position_embeddings, config.embedding_size),
        **_layer_norm("encoder/embeddings/layer_norm", config.embedding_size),
    }
    if config.type_vocab_size:
        shapes["encoder/embeddings/segment_embeddings"] = (config.type_vocab_size, config.embedding_size)
    if config.embedding_projection:
        shapes |= _dense("encoder/embeddings/projection", config.embedding_size, width)
    for number in range(config.num_blocks):
        layer = f"encoder/layer_{number}"
        for dense in ("query", "key", "value", "output_dense"):
            shapes |= _dense(f"{layer}/attention/{dense}", width, width)
        shapes |= _layer_norm(f"{layer}/attention_layer_norm", width)
        shapes |= _dense(f"{layer}/intermediate_dense", width, inner)
        shapes |= _dense(f"{layer}/output_dense", inner, width)
        shapes |= _layer_norm(f"{layer}/output_layer_norm", width)
    return shapes | _dense(f"{POOLER}/dense", width, width)


def _static_encoder(config: BertConfig) -> dict[str, tuple[int, ...]]:
    return {TOKEN_EMBEDDINGS: (config.vocab_size, config.hidden_size)}


def _modern_bert_encoder(config: BertConfig) -> dict[str, tuple[int, ...]]:
    width, inner, norm_bias = config.hidden_size, config.intermediate_size, config.norm_bias
    shapes = {
        TOKEN_EMBEDDINGS: (config.vocab_size, width),
        **_layer_norm("encoder/embeddings/layer_norm", width, norm_bias),
        **_layer_norm("encoder/final_layer_norm", width, norm_bias),
    }
    for number in range(config.num_hidden_layers):
        layer = f"encoder/layer_{number}"
        if number > 0:
            shapes |= _layer_norm(f"{layer}/attention_layer_norm", width, norm_bias)
        shapes |= _dense(f"{layer}/attention/qkv", width, 3 * width, config.attention_bias)
        shapes |= _dense(f"{layer}/attention/output_dense", width, width, config.attention_bias)
        shapes |= _layer_norm(f"{layer}/feed_forward_layer_norm", width, norm_bias)
        shapes |= _dense(f"{layer}/intermediate_dense", width, 2 * inner, config.mlp_bias)
        shapes |= _dense(f"{layer}/output_dense", inner, width, config.mlp_bias)
    shapes |= _dense(f"{POOLER}/dense", width, width, config.classifier_bias)
    return shapes | _layer_norm(f"{POOLER}/layer_norm", width, norm_bias)


def head_shapes(config: BertConfig, head: str, num_classes: int) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape of the weights of a head; only classifiers use `num_classes`."""
    width = config.hidden_size
    if head == MASKED_LM and config.family.predicts_from_queries:
        return {MASK_EMBEDDING: (width,), OUTPUT_BIAS: (config.vocab_size,)}
    if head == MASKED_LM:
        outputs = config.embedding_size + config.extra_output_size
        shapes = {
            **_dense(f"{MASKED_LM}/dense", width, outputs, config.classifier_bias),
            **_layer_norm(f"{MASKED_LM}/layer_norm", outputs, config.norm_bias),
            OUTPUT_BIAS: (config.vocab_size,),
        }
        if not config.tie_word_embeddings:
            shapes[OUTPUT_EMBEDDINGS] = (config.vocab_size, config.embedding_size)
        if config.extra_output_size:
            shapes[EXTRA_OUTPUT_EMBEDDINGS] = (config.vocab_size, config.extra_output_size)
        return shapes
    if head == REPLACED_TOKEN:
        return _dense(f"{head}/dense", width, width) | _dense(f"{head}/output_dense", width, 1)
    outputs = {NEXT_SENTENCE: 2, SPAN_CLASSIFIER: 2, MULTIPLE_CHOICE: 1}.get(head, num_classes)
    return _dense(head, width, outputs)


def check_tensors(checkpoint: BertCheckpoint) -> None:
    """Raises `InputError` unless the encoder and each stored head are complete and match the config."""
    config, tensors = checkpoint.config, checkpoint.tensors
    expected = encoder_shapes(config)
    if not any(name.startswith(f"{POOLER}/") for name in tensors):
        expected = {name: shape for name, shape in expected.items() if not name.startswith(f"{POOLER}/")}
    for head in checkpoint.heads:
        if head in HEADS:
            kernel = tensors.get(f"{head}/kernel")
            num_classes = kernel.shape[-1] if kernel and kernel.shape else len(checkpoint.labels or ())
            expected |= head_shapes(config, head, num_classes)
            if head == CLASSIFIER and kernel and config.sentence_pooling != "mean":
                # A SentenceClassifier reads the vector of a text, of any width.
                expected[f"{head}/kernel"] = (kernel.shape[0], num_classes)
    missing = [name for name in expected if name not in tensors]
    if missing:
        raise InputError(
            f"{checkpoint.path} ({checkpoint.kind}) is incomplete: {len(missing)} of {len(expected)} tensors are "
            f"missing: {_some(missing)}. Copy it again, or correct its config."
        )
    if checkpoint.model_class is None:  # a user's own class may have additional weights in its encoder
        check_no_surplus(checkpoint, [name for name in tensors if part_of(name) == ENCODER and name not in expected])
    for name, shape in expected.items():
        if tensors[name].shape != shape:
            raise InputError(
                f"{checkpoint.path} ({checkpoint.kind}): {name} has the shape {list(tensors[name].shape)}, but its "
                f"config requires {list(shape)}. The config belongs to another checkpoint, or the file is damaged."
            )
        if tensors[name].dtype not in WEIGHT_TYPES:
            raise InputError(
                f"{checkpoint.path} ({checkpoint.kind}): {name} has the dtype {tensors[name].dtype}, but weights must "
                f"have one of {', '.join(WEIGHT_TYPES)}. The file is damaged, or its weights are quantised."
            )
    if checkpoint.vocabulary is not None:
        try:
            config.check_vocabulary(len(checkpoint.vocabulary))
        except InputError as error:
            raise InputError(f"{checkpoint.path}: {error}") from None


def check_no_surplus(checkpoint: BertCheckpoint, names: Sequence[str]) -> None:
    """Raises `InputError` if there are weights that the config does not provide for.

    Otherwise a model with fewer layers than trained would silently compute something else.
    """
    if names:
        raise InputError(
            f"{checkpoint.path} ({checkpoint.kind}) has more weights than a model with num_hidden_layers="
            f"{checkpoint.config.num_hidden_layers}: {_some(names)}. The config belongs to another checkpoint."
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _dense(name: str, inputs: int, outputs: int, has_bias: bool = True) -> dict[str, tuple[int, ...]]:
    return {f"{name}/kernel": (inputs, outputs)} | ({f"{name}/bias": (outputs,)} if has_bias else {})


def _layer_norm(name: str, width: int, has_bias: bool = True) -> dict[str, tuple[int, ...]]:
    return {f"{name}/gamma": (width,)} | ({f"{name}/beta": (width,)} if has_bias else {})


def _longformer_encoder(config: BertConfig) -> dict[str, tuple[int, ...]]:
    shapes = _bert_encoder(config)
    for number in range(config.num_blocks):
        for dense in ("query_global", "key_global", "value_global"):
            shapes |= _dense(f"encoder/layer_{number}/attention/{dense}", config.hidden_size, config.hidden_size)
    return shapes


def _mobile_bert_encoder(config: BertConfig) -> dict[str, tuple[int, ...]]:
    width, narrow, inner = config.hidden_size, config.intra_bottleneck_size, config.intermediate_size
    shapes = {
        TOKEN_EMBEDDINGS: (config.vocab_size, config.embedding_size),
        POSITION_EMBEDDINGS: (config.max_position_embeddings, width),
        **_dense("encoder/embeddings/transformation", 3 * config.embedding_size, width),
        **_layer_norm("encoder/embeddings/layer_norm", width),
    }
    if config.type_vocab_size:
        shapes["encoder/embeddings/segment_embeddings"] = (config.type_vocab_size, width)
    for number in range(config.num_hidden_layers):
        layer = f"encoder/layer_{number}"
        for bottleneck in ("input", "shared") if config.key_query_shared_bottleneck else ("input",):
            shapes |= _dense(f"{layer}/{bottleneck}_bottleneck", width, narrow)
            shapes |= _layer_norm(f"{layer}/{bottleneck}_layer_norm", narrow)
        for dense in ("query", "key", "value", "output_dense"):
            reads_inputs = dense == "value" and config.key_query_shared_bottleneck
            shapes |= _dense(f"{layer}/attention/{dense}", width if reads_inputs else narrow, narrow)
        shapes |= _layer_norm(f"{layer}/attention_layer_norm", narrow)
        for net in range(config.num_feedforward_networks):
            shapes |= _dense(f"{layer}/intermediate_dense_{net}", narrow, inner)
            shapes |= _dense(f"{layer}/output_dense_{net}", inner, narrow)
            shapes |= _layer_norm(f"{layer}/output_layer_norm_{net}", narrow)
        shapes |= _dense(f"{layer}/output_bottleneck", narrow, width)
        shapes |= _layer_norm(f"{layer}/output_bottleneck_layer_norm", width)
    return shapes | (_dense(f"{POOLER}/dense", width, width) if config.classifier_activation else {})


def _xlnet_encoder(config: BertConfig) -> dict[str, tuple[int, ...]]:
    width, heads = config.hidden_size, (config.num_attention_heads, config.head_size)
    shapes = {TOKEN_EMBEDDINGS: (config.vocab_size, width)} | _relative_layers(config)
    for number in range(config.num_hidden_layers):
        layer = f"encoder/layer_{number}"
        shapes[f"{layer}/attention/segment_bias"] = heads
        shapes[f"{layer}/attention/segment_embeddings"] = (2, *heads)
    return shapes | _dense(f"{POOLER}/dense", width, width)


def _transformer_xl(config: BertConfig) -> dict[str, tuple[int, ...]]:
    shapes, clusters = _relative_layers(config), config.clusters
    for number, cluster in enumerate(clusters):
        shapes[f"encoder/embeddings/table_{number}"] = (cluster.size, cluster.width)
        shapes[f"encoder/softmax/bias_{number}"] = (cluster.size,)
        projection = {f"projection_{number}": (cluster.width, config.hidden_size)}
        for part, is_here in (("embeddings", cluster.is_projected), ("softmax", not cluster.is_tied)):
            if cluster.is_projected and is_here:
                shapes |= {f"encoder/{part}/{name}": shape for name, shape in projection.items()}
    if len(clusters) > 1:
        shapes["encoder/softmax/cluster_table_0"] = (len(clusters) - 1, clusters[0].width)
        shapes["encoder/softmax/cluster_bias"] = (len(clusters) - 1,)
    return shapes


def _relative_layers(config: BertConfig) -> dict[str, tuple[int, ...]]:
    width, inner, heads = config.hidden_size, config.intermediate_size, (config.num_attention_heads, config.head_size)
    shapes: dict[str, tuple[int, ...]] = {}
    for number in range(config.num_hidden_layers):
        layer = f"encoder/layer_{number}"
        for dense in ("query", "key", "value", "distance", "output_dense"):
            shapes |= _dense(f"{layer}/attention/{dense}", width, width, has_bias=False)
        for bias in ("content_bias", "distance_bias"):
            shapes[f"{layer}/attention/{bias}"] = heads
        shapes |= _layer_norm(f"{layer}/attention_layer_norm", width)
        shapes |= _dense(f"{layer}/intermediate_dense", width, inner)
        shapes |= _dense(f"{layer}/output_dense", inner, width)
        shapes |= _layer_norm(f"{layer}/output_layer_norm", width)
    return shapes


# Families whose encoder has other weights than BERT's.
_SHAPES_OF_FAMILY = {
    "longformer": _longformer_encoder,
    "mobilebert": _mobile_bert_encoder,
    "modernbert": _modern_bert_encoder,
    "static": _static_encoder,
    "transfo-xl": _transformer_xl,
    "xlnet": _xlnet_encoder,
}
