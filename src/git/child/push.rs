//! Push: one status branch, from where we think it is to our commit, never by force.

use std::cell::RefCell;

use git2::{ErrorCode, Oid, PushOptions, RemoteRedirect, Repository};

use super::push_local;
use super::session::{Session, unusable_cache, words};
use crate::git::address::Scheme;
use crate::git::cache;
use crate::git::error::TransportError;
use crate::git::protocol::{PushRequest, status_reference};
use crate::git::revision::CommitId;

/// Is one push: what, from where, to where.
pub(super) struct Push<'a> {
    pub(super) session: &'a Session,
    pub(super) ours: &'a Repository,
    pub(super) commit: Oid,
    /// Where the branch must be now; `None`: it must not exist.
    pub(super) expected: Option<Oid>,
    pub(super) reference: String,
}

/// Pushes. Blocking; the deadline is the parent's.
pub(super) fn push(request: &PushRequest) -> Result<(), TransportError> {
    let PushRequest { remote, cache: folder, status_cluster, commit, expected } = request;
    let session = Session::begin(remote, folder)?;
    let locked = cache::open_locked(folder).map_err(|error| unusable_cache(folder, &error))?;
    let failed = |error: git2::Error| session.translate(&error);
    let push = Push {
        session: &session,
        ours: &locked.repository,
        commit: commit.to_oid().map_err(failed)?,
        expected: expected.as_ref().map(CommitId::to_oid).transpose().map_err(failed)?,
        reference: status_reference(status_cluster),
    };
    match remote.address.scheme() {
        Scheme::File { path } => push_local::push(&push, path)?,
        Scheme::Https | Scheme::Ssh { .. } => push_over_the_wire(&push)?,
    }
    let own = cache::status_tip_reference(status_cluster);
    locked.repository.reference(&own, push.commit, true, "push").map(|_| ()).map_err(failed)
}

/// Pushes to a server.
///
/// Success is only what the server says about this very reference: libgit2 returns `Ok` also when
/// a hook refused it.
fn push_over_the_wire(push: &Push<'_>) -> Result<(), TransportError> {
    let Push { session, ours, commit, expected, reference } = push;
    let expected = expected.unwrap_or(Oid::ZERO_SHA1);
    let told: RefCell<Option<Option<String>>> = RefCell::new(None);

    let mut callbacks = session.callbacks();
    // The server compares and swaps from what it advertised; this makes that the value we built on.
    callbacks.push_negotiation(|updates| {
        let there = updates.iter().find(|it| it.dst_refname_bytes() == reference.as_bytes());
        match there {
            Some(update) if update.src() == expected => Ok(()),
            Some(_) | None => Err(session.stop_with(push.moved())),
        }
    });
    callbacks.push_update_reference(|name, refusal| {
        if name == reference {
            told.replace(Some(refusal.map(str::to_owned)));
        }
        Ok(())
    });
    let headers = session.headers();
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let mut options = PushOptions::new();
    options
        .remote_callbacks(callbacks)
        .follow_redirects(RemoteRedirect::None)
        .custom_headers(&headers);
    let outcome = ours
        .remote_anonymous(&session.remote)
        .and_then(|mut it| it.push(&[format!("{commit}:{reference}")], Some(&mut options)));
    drop(options);
    match outcome {
        Ok(()) => {}
        Err(error) if error.code() == ErrorCode::NotFastForward => return Err(push.moved()),
        Err(error) => return Err(session.translate(&error)),
    }
    match told.into_inner() {
        Some(None) => Ok(()),
        Some(Some(message)) => Err(push.refused(&message)),
        None => Err(TransportError::PushUnconfirmed {
            remote: session.remote.clone(),
            reference: reference.clone(),
        }),
    }
}

impl Push<'_> {
    /// Returns the error that says that the branch is elsewhere.
    pub(super) fn moved(&self) -> TransportError {
        TransportError::TipMoved {
            remote: self.session.remote.clone(),
            reference: self.reference.clone(),
            expected: self.expected.map(CommitId::from_oid),
        }
    }

    /// Returns the error that says that the reference was refused.
    pub(super) fn refused(&self, message: &str) -> TransportError {
        TransportError::PushRefused {
            remote: self.session.remote.clone(),
            reference: self.reference.clone(),
            message: words(message),
        }
    }
}
