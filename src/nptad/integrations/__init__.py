"""Views of the detector for other libraries."""
