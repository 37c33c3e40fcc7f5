//! Hygiene of the source tree: import table, lengths, words.
