//! How large what we write into annotations may get.
//!
//! In: text. Out: the same text, cut, or whether it fits.
//! Must never: cut a structure; only free text is cut, a structure that does not fit is refused.

/// Largest `nodeState_<cr>` we write, in bytes.
///
/// All annotations of an object share 256 KiB; eight resources on one node must fit (design §4).
pub const NODE_STATE_MAX_BYTES: usize = 32 * 1024;

/// Largest `rollout_<cr>` we write, in bytes; the record has fixed fields and two short texts.
pub const RECORD_MAX_BYTES: usize = 3 * 1024;

/// Longest message inside an annotation, a condition or a status, in bytes (design §4 rule 11).
pub const MESSAGE_MAX_BYTES: usize = 1024;

/// Marks that a text was cut.
const CUT_MARK: &str = "…";

/// What does not fit into its annotation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} would take {bytes} bytes; at most {max_bytes} are written to one annotation")]
pub struct TooLarge {
    /// The kind of annotation, in words.
    pub what: &'static str,
    /// Its size.
    pub bytes: usize,
    /// The bound.
    pub max_bytes: usize,
}

/// Checks the size of a `nodeState_<cr>` value.
///
/// # Errors
/// It is over [`NODE_STATE_MAX_BYTES`].
pub fn check_node_state(value: &str) -> Result<(), TooLarge> {
    check("the state of the node's packages", value, NODE_STATE_MAX_BYTES)
}

/// Checks the size of a `rollout_<cr>` value.
///
/// # Errors
/// It is over [`RECORD_MAX_BYTES`].
pub fn check_record(value: &str) -> Result<(), TooLarge> {
    check("the record of the visit", value, RECORD_MAX_BYTES)
}

/// Cuts a message to [`MESSAGE_MAX_BYTES`], on a character boundary, ending in `…` when cut.
#[must_use]
pub fn bounded_message(text: &str) -> String {
    if text.len() <= MESSAGE_MAX_BYTES {
        return text.to_owned();
    }
    format!("{}{CUT_MARK}", cut(text, MESSAGE_MAX_BYTES - CUT_MARK.len()))
}

/// Returns the longest beginning of a text that has at most so many bytes and whole characters.
#[must_use]
pub fn cut(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

fn check(what: &'static str, value: &str, max_bytes: usize) -> Result<(), TooLarge> {
    let bytes = value.len();
    if bytes > max_bytes { Err(TooLarge { what, bytes, max_bytes }) } else { Ok(()) }
}
