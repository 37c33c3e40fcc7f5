//! The store: objects, the one revision counter, and the history that watches read.
//!
//! Everything here is synchronous and runs under one lock; a change is visible to reads, lists and
//! watches at once. The store knows nothing of verbs, validation or faults.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;

/// Changes kept per resource: a watch that starts before the oldest of them is expired. Enough for
/// every tick of a test; small enough that heartbeats of 100 nodes do not fill the memory.
const HISTORY_LENGTH_MAX: usize = 4096;

/// Group and plural: versions of one resource share their objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ResourceKey {
    pub group: String,
    pub plural: String,
}

/// Namespace (empty for cluster scope) and name, in the order lists come in.
pub(super) type ObjectKey = (String, String);

/// One step of an object's life.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub revision: u64,
    pub key: ObjectKey,
    pub before: Option<Arc<Value>>,
    /// `None` when the object was deleted.
    pub after: Option<Arc<Value>>,
}

/// The objects of one resource and their recent past.
#[derive(Debug)]
pub(super) struct Collection {
    pub objects: BTreeMap<ObjectKey, Arc<Value>>,
    history: VecDeque<Change>,
    /// Watches must start at this revision or later.
    oldest: u64,
    news: watch::Sender<u64>,
}

/// Every object of the cluster.
#[derive(Debug)]
pub(super) struct Store {
    revision: u64,
    collections: BTreeMap<ResourceKey, Collection>,
    identities: fastrand::Rng,
}

impl Store {
    /// Returns an empty store; UIDs are the same in every run.
    pub fn new() -> Self {
        Self {
            revision: 1,
            collections: BTreeMap::new(),
            identities: fastrand::Rng::with_seed(0x6e6f_6465),
        }
    }

    /// Returns the revision of the last change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Takes the next revision without a change, as other writers of a shared etcd do.
    pub fn bump(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    /// Returns a fresh UID.
    pub fn uid(&mut self) -> String {
        let bits = self.identities.u128(..);
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            (bits >> 96) & 0xffff_ffff,
            (bits >> 80) & 0xffff,
            (bits >> 64) & 0xfff,
            (bits >> 48) & 0xfff,
            bits & 0xffff_ffff_ffff
        )
    }

    /// Returns five letters for `generateName`.
    pub fn suffix(&mut self) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..5).map(|_| char::from(LETTERS[self.identities.usize(..LETTERS.len())])).collect()
    }

    /// Returns the objects of a resource.
    pub fn collection(&mut self, resource: &ResourceKey) -> &mut Collection {
        let revision = self.revision;
        self.collections.entry(resource.clone()).or_insert_with(|| Collection {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            oldest: 1,
            news: watch::Sender::new(revision),
        })
    }

    /// Returns one object.
    pub fn get(&self, resource: &ResourceKey, key: &ObjectKey) -> Option<Arc<Value>> {
        self.collections.get(resource)?.objects.get(key).cloned()
    }

    /// Returns every object of every resource, for garbage collection.
    pub fn everything(&self) -> impl Iterator<Item = (&ResourceKey, &ObjectKey, &Arc<Value>)> {
        self.collections.iter().flat_map(|(resource, collection)| {
            collection.objects.iter().map(move |(key, object)| (resource, key, object))
        })
    }

    /// Stores an object under the next revision and returns it as stored.
    pub fn put(&mut self, resource: &ResourceKey, key: ObjectKey, mut object: Value) -> Arc<Value> {
        self.revision += 1;
        let revision = self.revision;
        object["metadata"]["resourceVersion"] = json!(revision.to_string());
        let object = Arc::new(object);
        let collection = self.collection(resource);
        let before = collection.objects.insert(key.clone(), object.clone());
        collection.record(Change { revision, key, before, after: Some(object.clone()) });
        object
    }

    /// Removes an object and returns its last form, under the revision of the deletion.
    pub fn remove(&mut self, resource: &ResourceKey, key: &ObjectKey) -> Option<Arc<Value>> {
        let removed = self.collection(resource).objects.remove(key)?;
        self.revision += 1;
        let revision = self.revision;
        let mut last = Value::clone(&removed);
        last["metadata"]["resourceVersion"] = json!(revision.to_string());
        let last = Arc::new(last);
        self.collection(resource).record(Change {
            revision,
            key: key.clone(),
            before: Some(last.clone()),
            after: None,
        });
        Some(last)
    }
}

impl Collection {
    /// Returns the changes after `revision`, or `None` if they are no longer all known.
    pub fn since(&self, revision: u64) -> Option<impl Iterator<Item = &Change>> {
        if revision < self.oldest {
            return None;
        }
        let start = self.history.partition_point(|change| change.revision <= revision);
        Some(self.history.range(start..))
    }

    /// Returns the first revision a watch may start at.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Forgets the past, as a compaction of etcd does: every older watch and page is expired.
    pub fn compact(&mut self, revision: u64) {
        self.history.clear();
        self.oldest = revision;
        self.news.send_replace(revision);
    }

    /// Returns what tells of new changes.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    fn record(&mut self, change: Change) {
        let revision = change.revision;
        self.history.push_back(change);
        if self.history.len() > HISTORY_LENGTH_MAX
            && let Some(dropped) = self.history.pop_front()
        {
            self.oldest = dropped.revision;
        }
        self.news.send_replace(revision);
    }
}
