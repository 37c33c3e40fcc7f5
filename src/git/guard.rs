//! Never backwards by surprise: may this commit take the place of the accepted one?
//!
//! Pure. In: what was accepted, what was fetched, and which commit a person let through. Out:
//! accept, or hold with the reason and the way out. Fetching never fails because of history; only
//! what is applied is held.

use std::fmt;

use super::ancestry::Ancestry;
use super::revision::CommitId;

/// Is the revision in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Its commit.
    pub commit: CommitId,
    /// How many resources it holds.
    pub resources: usize,
}

/// Is a revision that was fetched and read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its commit.
    pub commit: CommitId,
    /// How it relates to the accepted commit.
    pub ancestry: Ancestry,
    /// How many resources it holds.
    pub resources: usize,
}

/// Says whether a candidate takes effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It does.
    Accept,
    /// It does not, until a person says so; what was accepted stays in force.
    Held(Hold),
}

/// Says why a candidate is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// It does not descend from the accepted commit.
    HistoryRewritten {
        /// In force.
        accepted: CommitId,
        /// Held.
        candidate: CommitId,
        /// How they relate.
        ancestry: Ancestry,
    },
    /// It holds no resources, and the accepted one did.
    Emptied {
        /// Held.
        candidate: CommitId,
        /// How many resources would go.
        resources_before: usize,
    },
}

/// Judges a candidate; `let_through` is the commit that `nodewright accept` names.
///
/// The first commit of a cluster is always accepted. The let-through counts for exactly one commit,
/// in full, so that it cannot let a later one pass.
pub fn judge(
    accepted: Option<&Accepted>,
    candidate: &Candidate,
    let_through: Option<&CommitId>,
) -> Decision {
    let Some(accepted) = accepted else { return Decision::Accept };
    if let_through == Some(&candidate.commit) {
        return Decision::Accept;
    }
    match candidate.ancestry {
        Ancestry::Same | Ancestry::Descends => {}
        ancestry @ (Ancestry::Rewound | Ancestry::Diverged | Ancestry::AcceptedUnknown) => {
            return Decision::Held(Hold::HistoryRewritten {
                accepted: accepted.commit.clone(),
                candidate: candidate.commit.clone(),
                ancestry,
            });
        }
    }
    if candidate.resources == 0 && accepted.resources > 0 {
        return Decision::Held(Hold::Emptied {
            candidate: candidate.commit.clone(),
            resources_before: accepted.resources,
        });
    }
    Decision::Accept
}

impl Hold {
    /// Returns the reason as one word, for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::HistoryRewritten { .. } => "HistoryRewritten",
            Self::Emptied { .. } => "Emptied",
        }
    }

    /// Returns the commit that is held.
    pub fn candidate(&self) -> &CommitId {
        match self {
            Self::HistoryRewritten { candidate, .. } | Self::Emptied { candidate, .. } => candidate,
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HistoryRewritten { accepted, candidate, ancestry } => {
                let how = match ancestry {
                    Ancestry::Rewound => "the branch was moved back",
                    Ancestry::AcceptedUnknown => "its history no longer holds the accepted commit",
                    Ancestry::Diverged | Ancestry::Same | Ancestry::Descends => {
                        "the branch was pushed with force"
                    }
                };
                let short = candidate.short();
                let accepted = accepted.short();
                write!(
                    formatter,
                    "{short} does not descend from {accepted}, which stays in force: {how}; if \
                     that is meant, run `nodewright accept {candidate}`"
                )
            }
            Self::Emptied { candidate, resources_before } => write!(
                formatter,
                "{} holds no resources where there were {resources_before}, which stay in force; \
                 if that is meant, run `nodewright accept {candidate}`",
                candidate.short()
            ),
        }
    }
}
