//! The commits of the story, each an edit of the files that the one before left.
//!
//! In: the files of `examples-repo`. Out: what the four people change, and what they say about it.
//! Must never: change a file that does not say what is expected; then the story would be another.

use super::error::DemoError;
use super::examples::{FILES, GENERAL, H200_TRAIN};
use crate::git::Person;

/// Runs the platform: writes the first commit, and the correction.
pub(super) const ADA: Person<'static> = Person { name: "Ada", mail: "ada@example.com" };

/// Tunes kernels.
pub(super) const LIN: Person<'static> = Person { name: "Lin", mail: "lin@example.com" };

/// Looks after the general pool, and forgets a pair of quotes.
pub(super) const GRACE: Person<'static> = Person { name: "Grace", mail: "grace@example.com" };

/// The version of kernel-tuning that `examples-repo` has, and that the revert brings back.
pub(super) const KERNEL_BEFORE: &str = "1.1.4";
/// The version that needs a reboot, and is reverted.
pub(super) const KERNEL_AFTER: &str = "1.1.5";
/// The version of fabric-check before and after the commit that is half right.
pub(super) const FABRIC_BEFORE: &str = "1.1.1";
pub(super) const FABRIC_AFTER: &str = "1.1.2";
/// The version of kernel-tuning that the general pool gets once it is written correctly.
pub(super) const GENERAL_AFTER: &str = "1.2.0";

/// Where the broken manifest is wrong: file, line, column.
pub(super) const BROKEN_AT: (&str, u32, u32) = (GENERAL, 15, 16);

pub(super) const FIRST_MESSAGE: &str = "Tune the H200 and the general pool\n\nFirst commit: what \
every node of the cluster demo should have.\n";
pub(super) const UPGRADE_MESSAGE: &str = "h200-train: kernel-tuning 1.1.5\n\nTurns off automatic \
NUMA balancing, which moves pages under running NCCL jobs.\nA boot parameter: every node of the \
pool reboots once.\n";
pub(super) const BROKEN_MESSAGE: &str = "fabric-check 1.1.2, and kernel-tuning 1.2 for the general \
pool\n";
pub(super) const FIXED_MESSAGE: &str = "general: write the version of kernel-tuning in full\n";

/// The files of the two pools as they are on the branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pools {
    h200_train: String,
    general: String,
}

impl Pools {
    /// Returns the files of `examples-repo`.
    pub fn of_examples() -> Self {
        let file = |path: &str| {
            let found = FILES.iter().find(|(name, _)| *name == path);
            found.map(|(_, text)| (*text).to_owned()).unwrap_or_default()
        };
        Self { h200_train: file(H200_TRAIN), general: file(GENERAL) }
    }

    /// Returns both files with their paths.
    pub fn files(&self) -> [(&'static str, &str); 2] {
        [(H200_TRAIN, &self.h200_train), (GENERAL, &self.general)]
    }

    /// Upgrades kernel-tuning on the training pool, with a new boot parameter.
    pub fn upgrade(&mut self) -> Result<(), DemoError> {
        let text = &mut self.h200_train;
        edit(
            H200_TRAIN,
            text,
            "kernel-tuning:\n      version: 1.1.4",
            "kernel-tuning:\n      version: 1.1.5",
        )?;
        edit(H200_TRAIN, text, "        kernel-tuning: 1.1.4", "        kernel-tuning: 1.1.5")?;
        let boot = "          transparent_hugepage=madvise\n";
        let boot_after =
            "          transparent_hugepage=madvise\n          numa_balancing=disable\n";
        edit(H200_TRAIN, text, boot, boot_after)
    }

    /// Changes both pools, the general one with a version that YAML takes for a number.
    pub fn break_general(&mut self) -> Result<(), DemoError> {
        edit(H200_TRAIN, &mut self.h200_train, "      version: 1.1.1", "      version: 1.1.2")?;
        let (before, after) =
            ("kernel-tuning:\n      version: 1.1.4", "kernel-tuning:\n      version: 1.2");
        edit(GENERAL, &mut self.general, before, after)
    }

    /// Writes that version as one.
    pub fn fix_general(&mut self) -> Result<(), DemoError> {
        let (before, after) =
            ("kernel-tuning:\n      version: 1.2\n", "kernel-tuning:\n      version: 1.2.0\n");
        edit(GENERAL, &mut self.general, before, after)
    }
}

/// Replaces every place where a file says `before`; there must be one.
fn edit(
    file: &'static str,
    text: &mut String,
    before: &'static str,
    after: &str,
) -> Result<(), DemoError> {
    if !text.contains(before) {
        return Err(DemoError::Example { file, text: before });
    }
    *text = text.replace(before, after);
    Ok(())
}
