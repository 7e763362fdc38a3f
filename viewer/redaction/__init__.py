"""Find secrets in texts, JSON values and JSON bytes, and replace them with a marker.

Other packages call ``texts`` and ``values``. ``json.document`` redacts JSON bytes and decodes few of them.
``rules`` find secrets; ``names`` says what a field's name and a value's form mean.
"""
