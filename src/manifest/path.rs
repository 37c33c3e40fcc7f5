//! The way to a field inside an object, and back to the place where it was written.

use std::fmt;

use super::breach::Part;
use super::tree::{Node, Place, Value};

/// The way to a field: `spec.packages.kernel.configMap["sysctl.conf"]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<Step>);

/// One step into a map or a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Key(String),
    Index(usize),
}

impl Path {
    /// Returns the way along these keys, from the root.
    #[must_use]
    pub fn of(keys: &[&str]) -> Self {
        Self(keys.iter().map(|key| Step::Key((*key).to_owned())).collect())
    }

    /// Returns the way to a key of what this leads to.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Key(key.to_owned()));
        Self(steps)
    }

    /// Returns the way to an item of what this leads to.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Index(index));
        Self(steps)
    }

    /// Returns whether this is the object itself.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether this leads to `other` or to something around it.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// Returns the last key on the way.
    #[must_use]
    pub fn last_key(&self) -> Option<&str> {
        self.0.iter().rev().find_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Index(_) => None,
        })
    }

    /// Returns whether the way leads through a key.
    pub(super) fn has_key(&self, wanted: &str) -> bool {
        self.0.iter().any(|step| matches!(step, Step::Key(key) if key == wanted))
    }

    /// Returns where the field was written; of a field that is not there, what would hold it.
    pub(super) fn place(&self, root: &Node, part: Part) -> Place {
        let mut node = root;
        let mut key_place = &root.place;
        for step in &self.0 {
            match (step, &node.value) {
                (Step::Key(key), Value::Map(_)) => {
                    let Some(entry) = node.entry(key) else { return key_place.clone() };
                    (key_place, node) = (&entry.key_place, &entry.value);
                }
                (Step::Index(index), Value::List(items)) => {
                    let Some(item) = items.get(*index) else { return key_place.clone() };
                    (key_place, node) = (&item.place, item);
                }
                (Step::Key(_) | Step::Index(_), _) => return key_place.clone(),
            }
        }
        match part {
            Part::Key => key_place.clone(),
            // An empty value has no place of its own.
            Part::Value if node.is_null() => key_place.clone(),
            Part::Value => node.place.clone(),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if is_plain(key) && position == 0 => f.write_str(key)?,
                Step::Key(key) if is_plain(key) => write!(f, ".{key}")?,
                Step::Key(key) => write!(f, "[{key:?}]")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}
