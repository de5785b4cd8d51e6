"""A development server: TensorFlow Serving's REST and gRPC API for any SavedModel."""
