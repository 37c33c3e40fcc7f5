//! The validated nouns every other room speaks in. No I/O, no clock.
