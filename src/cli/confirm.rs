//! What a person has to confirm: the flags for it, and what comes of leaving them out.
//!
//! In: the flags. Out: whether it is to be done; if not, what it would be, or the refusal. Must
//! never: count a question for a yes.

use super::error::CliError;

/// Whether something is to be done, or only told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub(super) struct ConfirmArgs {
    /// Says what would be done, and does nothing.
    #[arg(long, conflicts_with = "confirm")]
    dry_run: bool,
    /// Does it.
    #[arg(long, short = 'y')]
    confirm: bool,
}

impl ConfirmArgs {
    /// Returns whether it is to be done.
    pub(super) fn is_given(self) -> bool {
        self.confirm
    }

    /// Returns what comes out where it is not: what would be done, for who asked no more than that.
    ///
    /// # Errors
    /// Neither was said: the refusal, made of the same lines.
    pub(super) fn told(
        self,
        lines: String,
        refusal: impl FnOnce(&str) -> CliError,
    ) -> Result<String, CliError> {
        if self.dry_run { Ok(lines) } else { Err(refusal(&lines)) }
    }
}
