//! Fetch: the tips of the branches that were asked for, and every object they reach.

use git2::{AutotagOption, FetchOptions, Oid, Progress, RemoteRedirect, Repository};

use super::session::{Session, unusable_cache};
use crate::git::cache;
use crate::git::error::TransportError;
use crate::git::protocol::{FetchRequest, Fetched, Limits, status_reference};
use crate::git::revision::CommitId;

/// How many of the branches that are there an error names.
const BRANCHES_NAMED_MAX: usize = 8;

const STATUS_BRANCH_PREFIX: &str = "refs/heads/nodewright-status/";

/// Is what the server says it has.
struct Advertised {
    heads: Vec<(String, Oid)>,
}

/// Fetches. Blocking; the deadline is the parent's.
pub(super) fn fetch(request: &FetchRequest) -> Result<Fetched, TransportError> {
    let session = Session::begin(&request.remote, &request.cache)?;
    let locked = cache::open_locked_for_fetch(&request.cache)
        .map_err(|error| unusable_cache(&request.cache, &error))?;
    let repository = &locked.repository;
    let (advertised, received_bytes) = download(&session, repository, request)?;

    let mut fetched = Fetched {
        status_branches: advertised.count_status_branches(),
        received_bytes,
        ..Fetched::default()
    };
    if let Some(branch) = &request.source_branch {
        let tip = advertised.source_tip(&session.remote, branch)?;
        keep_tip(&session, repository, &cache::source_tip_reference(branch), Some(tip))?;
        fetched.source = Some(CommitId::from_oid(tip));
    }
    if let Some(cluster) = &request.status_cluster {
        let tip = advertised.tip(&status_reference(cluster));
        keep_tip(&session, repository, &cache::status_tip_reference(cluster), tip)?;
        fetched.status = tip.map(CommitId::from_oid);
    }
    Ok(fetched)
}

fn download(
    session: &Session,
    repository: &Repository,
    request: &FetchRequest,
) -> Result<(Advertised, u64), TransportError> {
    let mut remote = repository
        .remote_anonymous(request.remote.address.as_str())
        .map_err(|error| session.translate(&error))?;
    let limits = request.limits;
    let mut callbacks = session.callbacks();
    callbacks.transfer_progress(move |progress| over(limits, &progress).is_none());
    let headers = session.headers();
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let mut options = FetchOptions::new();
    options
        .remote_callbacks(callbacks)
        .download_tags(AutotagOption::None)
        // A redirect must not carry the credentials to another host; within the host libgit2
        // follows it all the same, but never from https to http.
        .follow_redirects(RemoteRedirect::None)
        .custom_headers(&headers);

    let wanted = request.source_branch.iter().map(|branch| format!("refs/heads/{branch}"));
    let status = request.status_cluster.iter().map(|cluster| status_reference(cluster));
    // Only the two branches, by full name; tips are kept by us, so nothing else is written.
    let refspecs: Vec<String> = wanted.chain(status).collect();
    let outcome = remote.download(&refspecs, Some(&mut options));
    if let Some(detail) = over(limits, &remote.stats()) {
        return Err(TransportError::TooLarge { remote: session.remote.clone(), detail });
    }
    outcome.map_err(|error| session.translate(&error))?;
    let heads = remote.list().map_err(|error| session.translate(&error))?;
    let heads = heads.iter().map(|head| (head.name().to_owned(), head.oid())).collect();
    let received = u64::try_from(remote.stats().received_bytes()).unwrap_or(u64::MAX);
    drop(remote.disconnect());
    Ok((Advertised { heads }, received))
}

/// Returns which bound a transfer broke.
fn over(limits: Limits, progress: &Progress<'_>) -> Option<String> {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let Limits { received_max_bytes, objects_max } = limits;
    if count(progress.received_bytes()) > received_max_bytes {
        Some(format!("more than {received_max_bytes} bytes"))
    } else if count(progress.total_objects()) > objects_max {
        Some(format!("more than {objects_max} objects"))
    } else {
        None
    }
}

/// Sets our reference for a tip; the commit and its tree must be there and readable.
fn keep_tip(
    session: &Session,
    repository: &Repository,
    reference: &str,
    tip: Option<Oid>,
) -> Result<(), TransportError> {
    let Some(tip) = tip else {
        // The branch is gone from the server: forget it too.
        return match repository.find_reference(reference) {
            Ok(mut found) => found.delete().map_err(|error| session.translate(&error)),
            Err(_) => Ok(()),
        };
    };
    let corrupt = |error: git2::Error| TransportError::Corrupt {
        remote: session.remote.clone(),
        detail: format!("the tip {tip} cannot be read: {}", error.message()),
    };
    repository.find_commit(tip).and_then(|commit| commit.tree()).map_err(corrupt)?;
    repository
        .reference(reference, tip, true, "fetch")
        .map(|_| ())
        .map_err(|error| session.translate(&error))
}

impl Advertised {
    fn tip(&self, reference: &str) -> Option<Oid> {
        self.heads.iter().find(|(name, _)| name == reference).map(|(_, tip)| *tip)
    }

    fn source_tip(&self, remote: &str, branch: &str) -> Result<Oid, TransportError> {
        if let Some(tip) = self.tip(&format!("refs/heads/{branch}")) {
            return Ok(tip);
        }
        let remote = remote.to_owned();
        if self.heads.is_empty() {
            return Err(TransportError::RepositoryEmpty { remote });
        }
        let present = self
            .heads
            .iter()
            .filter_map(|(name, _)| name.strip_prefix("refs/heads/"))
            .take(BRANCHES_NAMED_MAX)
            .map(|name| name.escape_debug().to_string())
            .collect();
        Err(TransportError::BranchMissing { remote, branch: branch.to_owned(), present })
    }

    fn count_status_branches(&self) -> u32 {
        let branches =
            self.heads.iter().filter(|(name, _)| name.starts_with(STATUS_BRANCH_PREFIX)).count();
        u32::try_from(branches).unwrap_or(u32::MAX)
    }
}
