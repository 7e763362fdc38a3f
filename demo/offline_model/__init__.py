"""A model that needs no network: an OpenAI-compatible server whose answers follow from the prompt alone."""
