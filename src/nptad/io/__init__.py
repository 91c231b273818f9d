"""Table files, text formats, atomic writing, tensor files."""
