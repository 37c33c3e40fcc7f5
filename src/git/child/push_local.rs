//! Push to a repository on this machine's disk.
//!
//! Not through libgit2's own local push: that one writes the reference without comparing it first,
//! so a push of somebody else in between would be lost, and it refuses repositories with a work
//! tree. Neither runs hooks: a rule that a hook enforces needs ssh or https.

use std::path::Path;

use git2::{ErrorCode, Oid, Repository};

use super::push::Push;
use crate::git::error::TransportError;

/// What the reflog of the other repository says, where it keeps one.
const REFLOG: &str = "nodewright: status";

/// Pushes. Writes a pack first, then moves the branch if it still is where we think.
pub(super) fn push(push: &Push<'_>, path: &Path) -> Result<(), TransportError> {
    let theirs = Repository::open(path).map_err(|error| push.session.translate(&error))?;
    let failed = |error: git2::Error| push.refused(error.message());
    let checked_out = theirs
        .find_reference("HEAD")
        .is_ok_and(|head| head.symbolic_target_bytes() == Some(push.reference.as_bytes()));
    if checked_out && !theirs.is_bare() {
        return Err(push.refused("the branch is checked out there, which is not allowed"));
    }
    let current = match theirs.refname_to_id(&push.reference) {
        Ok(tip) => Some(tip),
        Err(error) if error.code() == ErrorCode::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    if current != push.expected {
        return Err(push.moved());
    }
    write_pack(push, &theirs).map_err(failed)?;
    // Only this call compares under the lock, "not there" (zero) too; without force libgit2 looks
    // before it locks.
    let old = push.expected.unwrap_or(Oid::ZERO_SHA1);
    match theirs.reference_matching(&push.reference, push.commit, true, old, REFLOG) {
        Ok(_) => Ok(()),
        Err(error) => match error.code() {
            ErrorCode::Modified | ErrorCode::Exists | ErrorCode::Locked => Err(push.moved()),
            _ => Err(failed(error)),
        },
    }
}

/// Writes every object that the commit adds to what is there.
fn write_pack(push: &Push<'_>, theirs: &Repository) -> Result<(), git2::Error> {
    let mut walk = push.ours.revwalk()?;
    walk.push(push.commit)?;
    if let Some(old) = push.expected {
        walk.hide(old)?;
    }
    let mut builder = push.ours.packbuilder()?;
    builder.insert_walk(&mut walk)?;
    builder.write(&theirs.commondir().join("objects/pack"), 0)
}
