"""What exported models can be asked: a module for each kind of model."""
