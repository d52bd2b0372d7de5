"""Report documents: the JSON document, its validation, and the files of a report folder. May import
auditors and mechanisms.
"""
