"""The separators of numbers where Django's own are not those that browsers use for the language."""
