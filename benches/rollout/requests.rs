//! Whose requests the API server answered, by verb and kind.

use std::collections::BTreeMap;

use crate::plane::{AuditEntry, Stage};

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Daemon,
    Kubelets,
    /// The same process: leases, which every node's kubelet renews whatever happens.
    Heartbeats,
}

/// Requests of one time, by who asked, then verb and kind.
#[derive(Debug, Default)]
pub struct Requests {
    counts: BTreeMap<(Who, String), usize>,
}

impl Requests {
    /// Counts what was answered; a watch once, when it begins.
    pub fn count(entries: &[AuditEntry]) -> Self {
        let mut counts = BTreeMap::new();
        for entry in entries.iter().filter(|entry| is_first(entry)) {
            if let Some(who) = who(entry) {
                *counts.entry((who, what(entry))).or_default() += 1;
            }
        }
        Self { counts }
    }

    /// Returns how often each verb and kind was asked for, the most frequent first.
    pub fn by(&self, who: Who) -> Vec<(&str, usize)> {
        let own = self.counts.iter().filter(|((asks, _), _)| *asks == who);
        let mut own: Vec<(&str, usize)> =
            own.map(|((_, what), count)| (what.as_str(), *count)).collect();
        own.sort_by_key(|(what, count)| (std::cmp::Reverse(*count), *what));
        own
    }

    pub fn sum(&self, who: Who) -> usize {
        self.by(who).iter().map(|(_, count)| count).sum()
    }

    /// Returns the daemon's writes, without events and its lease.
    pub fn writes(&self) -> usize {
        let by = self.by(Who::Daemon);
        let is_write = |what: &str| {
            let is_read = ["get ", "list ", "watch "].iter().any(|verb| what.starts_with(verb));
            !is_read && !what.ends_with(" events") && !what.ends_with(" leases")
        };
        by.iter().filter(|(what, _)| is_write(what)).map(|(_, count)| count).sum()
    }
}

/// A watch has an entry at its begin and one at its end, everything else one.
fn is_first(entry: &AuditEntry) -> bool {
    match entry.stage {
        Stage::ResponseStarted => true,
        Stage::ResponseComplete => entry.verb != "watch",
        Stage::RequestReceived | Stage::Panic => false,
    }
}

fn who(entry: &AuditEntry) -> Option<Who> {
    if entry.user_agent.starts_with("nodewright-sim-kubelet/") {
        let is_heartbeat = entry.resource == "leases";
        return Some(if is_heartbeat { Who::Heartbeats } else { Who::Kubelets });
    }
    entry.user_agent.starts_with("nodewright/").then_some(Who::Daemon)
}

fn what(entry: &AuditEntry) -> String {
    let AuditEntry { verb, resource, subresource, code, .. } = entry;
    let refused = if *code >= 400 { format!(", answered {code}") } else { String::new() };
    match subresource.as_str() {
        "" => format!("{verb} {resource}{refused}"),
        subresource => format!("{verb} {resource}/{subresource}{refused}"),
    }
}
