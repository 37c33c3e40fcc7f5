//! How a commit relates to the one that was accepted before it.

use std::path::Path;

use super::cache;
use super::revision::CommitId;
use super::tree::TreeError;

/// Says how a candidate relates to the accepted commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ancestry {
    /// They are the same commit.
    Same,
    /// The accepted commit is an ancestor of the candidate: the usual push.
    Descends,
    /// The candidate is an ancestor of the accepted commit: somebody moved the branch back.
    Rewound,
    /// Neither: somebody pushed with force.
    Diverged,
    /// The accepted commit is not in our clone and so no ancestor of what we fetched: somebody
    /// pushed with force, and the clone was made after that.
    AcceptedUnknown,
}

/// Compares two commits of the clone. Blocking: walks history on disk.
///
/// # Errors
///
/// The clone or the candidate's history cannot be read.
pub fn ancestry(
    cache: &Path,
    accepted: &CommitId,
    candidate: &CommitId,
) -> Result<Ancestry, TreeError> {
    let repository = cache::open(cache)?;
    let failed = |source| TreeError::Commit { commit: candidate.clone(), source };
    let candidate_id = candidate.to_oid().map_err(failed)?;
    repository.find_commit(candidate_id).map_err(failed)?;
    if accepted == candidate {
        return Ok(Ancestry::Same);
    }
    let accepted_id = accepted.to_oid().map_err(failed)?;
    if repository.find_commit(accepted_id).is_err() {
        return Ok(Ancestry::AcceptedUnknown);
    }
    if repository.graph_descendant_of(candidate_id, accepted_id).map_err(failed)? {
        Ok(Ancestry::Descends)
    } else if repository.graph_descendant_of(accepted_id, candidate_id).map_err(failed)? {
        Ok(Ancestry::Rewound)
    } else {
        Ok(Ancestry::Diverged)
    }
}
