"""What a person types, turned into values: the fork's form and the project's."""
