//! Push: one status branch, from where we think it is to our commit, never by force.

use std::cell::RefCell;

use git2::{ErrorCode, Oid, PushOptions, RemoteRedirect};

use super::session::Session;
use crate::git::cache;
use crate::git::error::TransportError;
use crate::git::protocol::{PushRequest, status_reference};
use crate::git::revision::CommitId;

/// Pushes. Blocking; the deadline is the parent's.
///
/// Success is only what the server says about this very reference: libgit2 returns `Ok` also when
/// a hook refused it.
pub(super) fn push(request: &PushRequest) -> Result<(), TransportError> {
    let PushRequest { remote, cache: folder, status_cluster, commit, expected } = request;
    let session = Session::begin(remote, folder)?;
    let locked = session.open_cache(folder)?;
    let reference = status_reference(status_cluster);
    let moved = || TransportError::TipMoved {
        remote: session.remote.clone(),
        reference: reference.clone(),
        expected: expected.clone(),
    };
    let expected_oid = expected
        .as_ref()
        .map_or(Ok(Oid::ZERO_SHA1), CommitId::to_oid)
        .map_err(|error| session.translate(&error))?;
    let told: RefCell<Option<Option<String>>> = RefCell::new(None);

    let mut callbacks = session.callbacks();
    // The server compares and swaps from what it advertised; this makes that the value we built on.
    callbacks.push_negotiation(|updates| {
        let there = updates.iter().find(|it| it.dst_refname_bytes() == reference.as_bytes());
        match there {
            Some(update) if update.src() == expected_oid => Ok(()),
            Some(_) | None => Err(session.stop_with(moved())),
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
    let outcome = locked
        .repository
        .remote_anonymous(remote.address.as_str())
        .and_then(|mut it| it.push(&[format!("{commit}:{reference}")], Some(&mut options)));
    drop(options);
    match outcome {
        Ok(()) => {}
        Err(error) if error.code() == ErrorCode::NotFastForward => return Err(moved()),
        // Of repositories on disk libgit2 writes only to bare ones.
        Err(error) if error.code() == ErrorCode::BareRepo => {
            let message = error.message().to_owned();
            return Err(TransportError::PushRefused { remote: session.remote, reference, message });
        }
        Err(error) => return Err(session.translate(&error)),
    }
    match told.into_inner() {
        Some(None) => {}
        Some(Some(message)) => {
            let message = crate::git::address::redact(&message);
            let remote = session.remote.clone();
            return Err(TransportError::PushRefused { remote, reference, message });
        }
        None => {
            return Err(TransportError::PushUnconfirmed { remote: session.remote, reference });
        }
    }
    let own = cache::status_tip_reference(status_cluster);
    commit
        .to_oid()
        .and_then(|tip| locked.repository.reference(&own, tip, true, "push").map(|_| ()))
        .map_err(|error| session.translate(&error))
}
