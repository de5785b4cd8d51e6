"""Token embeddings and a softmax in clusters: rare tokens have narrower vectors and are computed only when needed."""

import keras
from keras import ops

from keras_bert.layers.bert_layer import BertLayer
from keras_bert.layers.choosing import formulas_for


class _Clusters(BertLayer):
    """The settings of both layers.

    Args:
        sizes, widths: for each cluster of token ids, in their order, the number of ids and the width of embeddings.
        hidden_size: H, the width of the vectors of the model.
        is_projected: for each cluster, whether this layer has a matrix `[width, H]` for it.
        initializer_range: standard deviation of the initial tables and matrices.
    """

    def __init__(self, sizes, widths, hidden_size, is_projected, initializer_range=0.02, **kwargs):
        super().__init__(**kwargs)
        self.sizes, self.widths, self.is_projected = tuple(sizes), tuple(widths), tuple(is_projected)
        self.hidden_size = hidden_size
        self.initializer_range = initializer_range
        self.starts = [sum(self.sizes[:number]) for number in range(len(self.sizes))]

    def _weights(self, name, shapes):
        """Returns a weight for each shape; None where the shape is None."""
        return [
            shape and self.new_weight(f"{name}_{number}", shape, autocast=False) for number, shape in enumerate(shapes)
        ]

    def _projections(self):
        pairs = zip(self.widths, self.is_projected, strict=True)
        return self._weights("projection", [(width, self.hidden_size) if has else None for width, has in pairs])


@keras.saving.register_keras_serializable(package="keras_bert")
class AdaptiveEmbeddings(_Clusters):
    """Turns token ids into vectors; each cluster of ids has a table of its own width. `_Clusters` has its arguments.

    Call arguments:
        input_ids: int `[B, S]`.

    Returns:
        `[B, S, H]`: the rows of the tables, projected where needed, times the square root of H.

    Reference: Baevski and Auli, 2018, arXiv 1809.10853, section 3; kimiyoung/transformer-xl `tf/model.py`,
    `mask_adaptive_embedding_lookup`.
    """

    def build(self, input_ids_shape=None):
        self.tables = self._weights("table", zip(self.sizes, self.widths, strict=True))
        self.projections = self._projections()

    def call(self, input_ids):
        total = None
        for start, size, table, projection in zip(self.starts, self.sizes, self.tables, self.projections, strict=True):
            inside = (input_ids >= start) & (input_ids < start + size)
            rows = ops.take(table, ops.where(inside, input_ids - start, 0), axis=0)
            vectors = ops.cast(rows, self.compute_dtype)
            if projection is not None:
                vectors = ops.matmul(vectors, ops.cast(projection, self.compute_dtype))
            vectors = vectors if len(self.sizes) == 1 else ops.where(inside[..., None], vectors, 0)
            total = vectors if total is None else total + vectors
        return total * self.hidden_size**0.5

    def compute_output_shape(self, input_ids_shape):
        return (*input_ids_shape, self.hidden_size)


@keras.saving.register_keras_serializable(package="keras_bert")
class AdaptiveSoftmax(_Clusters):
    """Log-probabilities of tokens: those of the first cluster and of the other clusters, times those within a cluster.

    The tables are those of `AdaptiveEmbeddings`, and so are the projections of clusters that have none here.
    `_Clusters` has its arguments.

    Call arguments:
        vectors: float `[T, H]`.
        embeddings: the `AdaptiveEmbeddings`.
        targets: int `[T]`, token ids; None: all tokens are scored.

    Returns:
        -log p of the targets, `[T]`, float32; without targets log p of all tokens, `[T, V]`.

    Reference: Grave et al., 2016, arXiv 1609.04309; kimiyoung/transformer-xl `tf/model.py`, `mask_adaptive_logsoftmax`.
    """

    def build(self, vectors_shape=None):
        self.biases = [
            self.add_weight(name=f"bias_{number}", shape=(size,), initializer="zeros")
            for number, size in enumerate(self.sizes)
        ]
        num_tails = len(self.sizes) - 1
        self.cluster_table, self.cluster_bias = None, None
        if num_tails:
            (self.cluster_table,) = self._weights("cluster_table", [(num_tails, self.widths[0])])
            self.cluster_bias = self.add_weight(name="cluster_bias", shape=(num_tails,), initializer="zeros")
        self.projections = self._projections()

    def call(self, vectors, embeddings, targets=None):
        head = self._logits(vectors, embeddings, 0)
        if targets is None:
            return self._of_all_tokens(vectors, embeddings, ops.log_softmax(head))
        cross_entropy = formulas_for(training=True).cross_entropy
        numbers = sum(ops.cast(targets >= start, "int32") for start in self.starts[1:])  # of the clusters
        of_clusters = ops.where(targets < self.sizes[0], targets, self.sizes[0] + numbers - 1)
        losses = cross_entropy(head, of_clusters)
        for number in range(1, len(self.sizes)):
            # Only tokens whose target is in the cluster are computed.
            rows = ops.nonzero(ops.equal(numbers, number))[0]
            logits = self._logits(ops.take(vectors, rows, axis=0), embeddings, number)
            within = cross_entropy(logits, ops.take(targets, rows) - self.starts[number])
            losses = losses + ops.scatter(ops.expand_dims(rows, 1), within, ops.shape(losses))
        return losses

    def _of_all_tokens(self, vectors, embeddings, head):
        """Returns log p of all tokens, from that of the first cluster's tokens and of the other clusters."""
        size = self.sizes[0]
        parts = [head[:, :size]]
        for number in range(1, len(self.sizes)):
            of_cluster = head[:, size + number - 1, None]
            parts.append(of_cluster + ops.log_softmax(self._logits(vectors, embeddings, number)))
        return ops.concatenate(parts, axis=1)

    def _logits(self, vectors, embeddings, number):
        """Returns the scores of a cluster's tokens; after those of the first cluster follow those of the others."""
        projection = self.projections[number]
        projection = embeddings.projections[number] if projection is None else projection
        if projection is not None:
            vectors = ops.matmul(vectors, ops.transpose(ops.cast(projection, vectors.dtype)))
        table, bias = embeddings.tables[number], self.biases[number]
        if number == 0 and self.cluster_table is not None:
            table = ops.concatenate([table, self.cluster_table])
            bias = ops.concatenate([bias, self.cluster_bias])
        logits = ops.matmul(vectors, ops.transpose(ops.cast(table, vectors.dtype)))
        dtype = keras.backend.result_type(self.compute_dtype, "float32")
        return ops.cast(logits, dtype) + ops.cast(bias, dtype)
