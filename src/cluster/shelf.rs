//! Objects of one kind by name, where the newest version wins, whoever brought it.
//!
//! In: events of a watch and answers to our own writes, in any order. Out: the newest known state.
//! Must never: let a late event undo a write whose answer was already seen.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Deleted names remembered, so that the late answer to a write does not bring one back.
///
/// Answers arrive within seconds; a thousand deletions are more than a big cluster has in that
/// time.
const GRAVES_MAX: usize = 1024;

/// A version of an object: `metadata.resourceVersion`, which is ordered (Kubernetes 1.35).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub u64);

impl Revision {
    /// Reads the text; what is not a number counts as older than everything.
    pub fn parse(text: &str) -> Self {
        Self(text.parse().unwrap_or_default())
    }
}

/// What an insertion did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Something that we look at is different now.
    Visible,
    /// At most the version is.
    Invisible,
}

#[derive(Debug, Clone)]
struct Kept<T> {
    revision: Revision,
    uid: String,
    value: T,
}

/// Objects of one kind by name.
#[derive(Debug, Clone)]
pub struct Shelf<T> {
    kept: BTreeMap<String, Kept<T>>,
    graves: BTreeMap<String, Revision>,
    grave_order: VecDeque<String>,
    listing: Option<Listing>,
}

/// A list in progress.
#[derive(Debug, Clone, Default)]
struct Listing {
    seen: BTreeSet<String>,
    newest: Revision,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            kept: BTreeMap::new(),
            graves: BTreeMap::new(),
            grave_order: VecDeque::new(),
            listing: None,
        }
    }
}

impl<T> Shelf<T> {
    /// Returns the object of this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.kept.get(name).map(|kept| &kept.value)
    }

    /// Returns the objects in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &T)> {
        self.kept.iter().map(|(name, kept)| (name, &kept.value))
    }

    /// Takes in an object unless a newer one, or its deletion, is known.
    pub fn put(
        &mut self,
        name: &str,
        uid: &str,
        revision: Revision,
        value: T,
        is_same: impl FnOnce(&T, &T) -> bool,
    ) -> Change {
        if self.graves.get(name).is_some_and(|deleted| revision <= *deleted) {
            return Change::Invisible;
        }
        let change = match self.kept.get(name) {
            Some(kept) if revision < kept.revision => return Change::Invisible,
            Some(kept) if kept.uid == uid && is_same(&kept.value, &value) => Change::Invisible,
            Some(_) | None => Change::Visible,
        };
        let kept = Kept { revision, uid: uid.to_owned(), value };
        drop(self.kept.insert(name.to_owned(), kept));
        change
    }

    /// Returns the object of this name and UID.
    pub fn get_of(&self, name: &str, uid: &str) -> Option<&T> {
        self.kept.get(name).filter(|kept| kept.uid == uid).map(|kept| &kept.value)
    }

    /// Changes the object of this name and UID in place, until the server says more.
    pub fn amend(&mut self, name: &str, uid: &str, amend: impl FnOnce(&mut T)) {
        if let Some(kept) = self.kept.get_mut(name).filter(|kept| kept.uid == uid) {
            amend(&mut kept.value);
        }
    }

    /// Takes out an object that was deleted at `revision`.
    pub fn bury(&mut self, name: &str, revision: Revision) -> Change {
        if self.kept.get(name).is_some_and(|kept| kept.revision > revision) {
            return Change::Invisible;
        }
        self.remember_grave(name, revision);
        self.kept.remove(name).map_or(Change::Invisible, |_| Change::Visible)
    }

    /// Takes out an object that the server says is not there, whatever version we knew.
    pub fn bury_known(&mut self, name: &str) -> Change {
        match self.kept.get(name).map(|kept| kept.revision) {
            Some(revision) => self.bury(name, revision),
            None => Change::Invisible,
        }
    }

    /// Takes out an object if it is the one with this UID.
    pub fn bury_uid(&mut self, name: &str, uid: &str) -> Change {
        match self.kept.get(name) {
            Some(kept) if kept.uid == uid => self.bury_known(name),
            Some(_) | None => Change::Invisible,
        }
    }

    /// Begins a list: what it does not name by its end is gone.
    pub fn begin_list(&mut self) {
        self.listing = Some(Listing::default());
    }

    /// Notes that the list names an object, at this version.
    pub fn note_listed(&mut self, name: &str, revision: Revision) {
        if let Some(listing) = &mut self.listing {
            listing.seen.insert(name.to_owned());
            listing.newest = listing.newest.max(revision);
        }
    }

    /// Ends a list. What a write of ours brought in after the newest listed object stays: the
    /// watch that follows tells what became of it.
    pub fn end_list(&mut self) -> Change {
        let Some(listing) = self.listing.take() else { return Change::Invisible };
        let before = self.kept.len();
        self.kept
            .retain(|name, kept| listing.seen.contains(name) || kept.revision > listing.newest);
        if self.kept.len() == before { Change::Invisible } else { Change::Visible }
    }

    fn remember_grave(&mut self, name: &str, revision: Revision) {
        if self.graves.insert(name.to_owned(), revision).is_none() {
            self.grave_order.push_back(name.to_owned());
        }
        if self.grave_order.len() > GRAVES_MAX
            && let Some(oldest) = self.grave_order.pop_front()
        {
            self.graves.remove(&oldest);
        }
    }
}
