"""What a loaded export of a `MultiVectorEncoder` can do beside answering texts."""

from keras_bert.tasks.multi_vector.encoding import LateInteraction, checked_expansion


class LoadedMultiVectorEncoder(LateInteraction):
    """Methods of loaded exports of a `MultiVectorEncoder`."""

    def __init__(self, folder, engine, runtime):
        super().__init__(folder, engine, runtime)
        self.query_expansion = checked_expansion(self.query_expansion)
        self.check_settings()
