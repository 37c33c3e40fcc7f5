//! Everything people read: status files, plans as text, all wording in one place.
