//! What is due on a node: each package against its entry and its snapshot.
//!
//! In: the wanted packages, the node's entries and its record. Out: for each package where it
//! stands and what is wanted of it, the arguments of [`super::lifecycle`]; and what that comes to.
//! Must never: decide what follows, which is the table's to say.
//!
//! A package that was put there by upstream has no snapshot; it counts as configured as wanted, so
//! that taking over a cluster runs nothing again.

mod interrupt;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::lifecycle::{self, At, Beginning, Finding, Owes, Seen, Step, Wish};
use super::select::Scope;
use crate::model::{
    Entries, Entry, Interrupt, Node, Package, PackageId, Reason, Record, Rollout, Stage, State,
    Verdict, Version,
};

/// What one package still needs on one node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Need<'a> {
    /// The version whose work it is: the wanted one, or the one that is uninstalled.
    pub version: &'a str,
    /// The stage to run next.
    pub stage: Stage,
    /// The interrupt it leads to.
    pub interrupt: Option<Interrupt>,
    /// Its work has begun; it is not a change that waits for its turn.
    pub begun: bool,
}

/// What is due on a node, by name of the package.
pub(crate) type Needs<'a> = BTreeMap<&'a str, Need<'a>>;

/// One package on one node: what is wanted of it, and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Standing<'a> {
    pub name: &'a str,
    /// The package as the manifest has it.
    pub wanted: Option<&'a Package>,
    /// The entry that says what is on the host; other versions beside it are of the past.
    pub entry: Option<&'a Entry>,
    pub wish: Wish,
    /// The interrupt it leads to.
    pub interrupt: Option<Interrupt>,
}

impl<'a> Standing<'a> {
    /// Returns what the table says of it.
    pub(crate) fn step(&self, seen: Seen) -> Step {
        let owes = if self.interrupt.is_some() { Owes::Interrupt } else { Owes::Nothing };
        lifecycle::step(at(self.entry), owes, self.wish, seen)
    }

    /// Returns what it needs in a visit that has not touched it.
    fn need(&self) -> Option<Need<'a>> {
        let (stage, begun) = match self.step(Seen::Untouched).beginning()? {
            Beginning::New(stage) => (stage, false),
            Beginning::Again(stage) => (stage, true),
            Beginning::Following(_) => return None,
        };
        let version = self.version_at(stage)?;
        Some(Need { version, stage, interrupt: self.interrupt.clone(), begun })
    }

    /// Returns the version that a stage is about: an uninstall is of what stands there.
    fn version_at(&self, stage: Stage) -> Option<&'a str> {
        match stage {
            Stage::Uninstall | Stage::UninstallInterrupt => {
                self.entry.map(|entry| entry.version.as_str())
            }
            Stage::Apply
            | Stage::Upgrade
            | Stage::Config
            | Stage::Interrupt
            | Stage::PostInterrupt => self.wanted.map(|wanted| wanted.version.as_str()),
        }
    }

    /// Returns the same, with the package's name.
    pub(crate) fn id_at(&self, stage: Stage) -> Option<PackageId> {
        let version = self.version_at(stage)?.to_owned();
        Some(PackageId { name: self.name.to_owned(), version })
    }
}

/// Returns where an entry says that its package stands.
pub(crate) fn at(entry: Option<&Entry>) -> At {
    entry.map(|entry| (entry.stage, entry.state))
}

/// Returns every package that is wanted or that stands on the node, by name.
pub(crate) fn standings<'a>(
    scope: &Scope<'a>,
    entries: &'a Entries,
    record: Option<&Record>,
) -> Vec<Standing<'a>> {
    let wanted = &scope.rollout.packages;
    let mut all: Vec<Standing<'a>> = wanted
        .values()
        .map(|package| {
            let entry = standing_entry(scope, entries, &package.name, Some(package));
            standing(scope, &package.name, Some(package), entry, record)
        })
        .collect();
    let mut before = None;
    for name in entries.values().map(|entry| entry.name.as_str()) {
        if before.replace(name) != Some(name) && !wanted.contains_key(name) {
            let entry = standing_entry(scope, entries, name, None);
            all.push(standing(scope, name, None, entry, record));
        }
    }
    all
}

/// Returns what is due, by package name; a package that is absent is as wanted, or left as it is.
pub(crate) fn needs<'a>(
    scope: &Scope<'a>,
    entries: &'a Entries,
    record: Option<&Record>,
) -> Needs<'a> {
    needs_of(&standings(scope, entries, record))
}

/// Returns whether a wanted package is among them, without a look at the others.
pub(crate) fn is_due<'a>(
    scope: &Scope<'a>,
    entries: &'a Entries,
    record: Option<&Record>,
    package: &'a Package,
) -> bool {
    let entry = standing_entry(scope, entries, &package.name, Some(package));
    standing(scope, &package.name, Some(package), entry, record).need().is_some()
}

/// Returns what these come to in a visit that has touched none of them.
pub(crate) fn needs_of<'a>(standings: &[Standing<'a>]) -> Needs<'a> {
    standings.iter().filter_map(|it| Some((it.name, it.need()?))).collect()
}

/// Returns the stage at which a package without an interrupt in scope is complete.
///
/// We end a package that declares an interrupt at post-interrupt even where the last change needed
/// none: upstream would otherwise interrupt it again when the cluster is handed back.
pub(crate) fn last_stage(package: &Package) -> Stage {
    if package.interrupt.is_some() { Stage::PostInterrupt } else { Stage::Config }
}

/// Returns the names of the packages that may run now: what is uninstalled, and what is due while
/// everything it depends on is complete (upstream contract B.4). Uninstalls end before installs
/// begin. With `serial`, only one: whatever has begun, then uninstalls, then the first by name;
/// what only waits for its interrupt does not count (upstream contract B.4).
pub(crate) fn ready<'a>(rollout: &Rollout, needs: &Needs<'a>, entries: &Entries) -> Vec<&'a str> {
    let uninstalls = |need: &Need<'_>| need.stage == Stage::Uninstall;
    let awaits = |need: &Need<'_>| {
        need.begun && matches!(need.stage, Stage::Interrupt | Stage::UninstallInterrupt)
    };
    let uninstalling = needs.values().any(uninstalls);
    let mut ready: Vec<(&str, &Need<'_>)> = needs
        .iter()
        .map(|(name, need)| (*name, need))
        .filter(|(name, need)| match need.stage {
            Stage::Uninstall | Stage::UninstallInterrupt => true,
            Stage::Apply
            | Stage::Upgrade
            | Stage::Config
            | Stage::Interrupt
            | Stage::PostInterrupt => {
                (need.begun || !uninstalling) && has_parents(rollout, name, needs, entries)
            }
        })
        .collect();
    if rollout.serial {
        ready.sort_by_key(|(name, need)| (!awaits(need), !need.begun, !uninstalls(need), *name));
        let waiting = ready.iter().filter(|(_, need)| awaits(need)).count();
        ready.truncate(waiting + 1);
    }
    ready.into_iter().map(|(name, _)| name).collect()
}

/// Returns whether everything that the package depends on is complete, in exactly that version.
fn has_parents(rollout: &Rollout, name: &str, needs: &Needs<'_>, entries: &Entries) -> bool {
    let Some(package) = rollout.packages.get(name) else { return false };
    package.depends_on.iter().all(|(name, version)| {
        let parent = rollout.packages.get(name);
        let exact = parent.is_some_and(|parent| parent.version.as_str() == version.as_str());
        let there = parent.is_some_and(|parent| entries.contains_key(&parent.id()));
        exact && there && !needs.contains_key(name.as_str())
    })
}

/// Returns the finding on a package as a verdict.
pub(crate) fn finding(standing: &Standing<'_>, finding: Finding) -> Verdict {
    let package = standing.entry.map_or_else(|| standing.name.to_owned(), |it| it.id().to_string());
    Verdict::blocked(Reason::PackageFinding { package, why: finding.to_string() })
}

/// Returns the entries with everything recorded that runs nothing: wanted snapshots of what is
/// complete, the end of uninstalls that nobody followed up, and versions left before they began.
/// `None` where nothing is.
pub(crate) fn settled(
    scope: &Scope<'_>,
    node: &Node,
    before: &Entries,
    standings: &[Standing<'_>],
    step: impl Fn(&Standing<'_>) -> Step,
) -> Option<Entries> {
    let untried = before.values().any(|entry| entry.untried);
    let mut entries = None;
    for standing in standings {
        let step = step(standing);
        if !untried && !matches!(step, Step::Adopt | Step::Remove) {
            continue; // Most nodes at most times: nothing is copied for them.
        }
        let entries = entries.get_or_insert_with(|| before.clone());
        settle(scope, standing, step, entries);
        forget_untried(scope, node, standing, entries);
    }
    entries.filter(|entries| entries != before)
}

/// Records what a step says that runs nothing.
fn settle(scope: &Scope<'_>, standing: &Standing<'_>, step: Step, entries: &mut Entries) {
    let Some(id) = standing.entry.map(Entry::id) else { return };
    if step == Step::Remove {
        return remove(scope, &id, entries);
    }
    let Some(wanted) = standing.wanted.filter(|_| step == Step::Adopt) else { return };
    let snapshot = scope.snapshot_name(wanted);
    let known = scope.input.observed.snapshots.contains_key(snapshot);
    if let Some(entry) = entries.get_mut(&id).filter(|_| known) {
        entry.snapshot = Some(snapshot.to_owned());
    }
}

/// Removes the entries of versions that were recorded as begun, of which nothing ran, and that are
/// not wanted any more: what stood on the host before stands there still. Not while a pod may
/// begin.
fn forget_untried(scope: &Scope<'_>, node: &Node, standing: &Standing<'_>, entries: &mut Entries) {
    let here = scope.executors.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
    let may_begin = here.iter().any(|executor| {
        executor.is_active()
            && executor.visit.rollout == scope.rollout.name
            && executor.package.name == standing.name
    });
    if may_begin {
        return;
    }
    entries.retain(|id, entry| {
        let stays = !entry.untried || is_put_there(scope, standing.wanted, entry);
        id.name != standing.name || stays
    });
}

/// Removes the entry of what is not on the host any more; where a version of it is wanted, those
/// of earlier versions too, for what they put there went with it.
pub(crate) fn remove(scope: &Scope<'_>, gone: &PackageId, entries: &mut Entries) {
    let wanted = scope.rollout.packages.get(&gone.name);
    let follows = !scope.resource.deleting && wanted.is_some_and(|wanted| !wanted.uninstall.apply);
    entries.retain(|id, _| id != gone && !(follows && id.name == gone.name));
}

/// Returns what a person must look at on a node where nothing else is due.
pub(crate) fn finding_in(standings: &[Standing<'_>]) -> Option<Verdict> {
    standings.iter().find_map(|standing| {
        let Step::Finding(finding) = standing.step(Seen::Untouched) else { return None };
        Some(self::finding(standing, finding))
    })
}

/// Returns the config keys that differ between what was put on the node and what is wanted.
///
/// A snapshot that somebody deleted cannot be compared: then every key counts as changed, unless
/// its name, which is a digest of its content, says that it was the wanted one.
pub(crate) fn changed_keys(
    scope: &Scope<'_>,
    package: &Package,
    entry: &Entry,
) -> BTreeSet<String> {
    match &entry.snapshot {
        None => BTreeSet::new(),
        Some(name) if name == scope.snapshot_name(package) => BTreeSet::new(),
        Some(name) => match scope.input.observed.snapshots.get(name) {
            Some(snapshot) => package.changed_keys(&snapshot.package),
            None => package.config_map.keys().cloned().collect(),
        },
    }
}

/// Returns the snapshot that an uninstall of the entry runs with: what was installed, or for an
/// entry that names none the wanted package of exactly that version.
pub(crate) fn installed<'a>(
    scope: &Scope<'a>,
    wanted: Option<&'a Package>,
    entry: &Entry,
) -> Option<&'a Package> {
    let known = known_snapshot(scope, entry).and_then(|it| scope.input.observed.snapshots.get(it));
    let same = wanted.filter(|wanted| wanted.version.as_str() == entry.version);
    known.map(|snapshot| &snapshot.package).or(same)
}

/// Returns the snapshot of what is on the host, where it exists; else the one being put there.
fn known_snapshot<'e>(scope: &Scope<'_>, entry: &'e Entry) -> Option<&'e String> {
    let names = [entry.applied.as_ref(), entry.snapshot.as_ref()];
    let mut names = names.into_iter().flatten();
    names.find(|name| scope.input.observed.snapshots.contains_key(*name))
}

/// Returns what [`installed`] does, with the name of its snapshot.
pub(crate) fn uninstall_snapshot<'a>(
    scope: &Scope<'a>,
    wanted: Option<&'a Package>,
    entry: &Entry,
) -> Option<(&'a Package, String)> {
    let package = installed(scope, wanted, entry)?;
    let name = known_snapshot(scope, entry)
        .cloned()
        .unwrap_or_else(|| scope.snapshot_name(package).to_owned());
    Some((package, name))
}

/// Returns what is wanted of a package that stands as this entry says.
pub(crate) fn wish(scope: &Scope<'_>, wanted: Option<&Package>, entry: Option<&Entry>) -> Wish {
    let Some(entry) = entry else {
        return match wanted {
            _ if scope.resource.deleting => Wish::DeletedAsItIs,
            Some(wanted) if wanted.uninstall.apply => Wish::UninstallAsked,
            Some(_) => Wish::Same,
            None => Wish::RemovedAsItIs,
        };
    };
    // Looked up only where it decides: for most nodes at most times it does not.
    let installed = || installed(scope, wanted, entry);
    let uninstalls = || installed().is_some_and(|installed| installed.uninstall.enabled);
    let deleting = scope.resource.deleting;
    let taken_off = matches!(entry.stage, Stage::Uninstall | Stage::UninstallInterrupt);
    let asked = wanted.is_some_and(|wanted| wanted.uninstall.apply);
    match wanted {
        _ if entry.stage == Stage::UninstallInterrupt && installed().is_none() => {
            Wish::UninstallUnknown
        }
        _ if deleting && !taken_off && installed().is_none() => Wish::DeletedAsItIs,
        Some(wanted) if !asked && !deleting => {
            if wanted.version.as_str() == entry.version {
                same_version(scope, wanted, entry)
            } else if is_higher(wanted, entry) {
                Wish::HigherVersion
            } else if uninstalls() {
                Wish::LowerVersionAfterUninstall
            } else {
                Wish::LowerVersion
            }
        }
        _ if (taken_off || asked) && installed().is_none() => Wish::UninstallUnknown,
        _ if deleting && (asked || goes_with_resource(uninstalls(), wanted, entry)) => {
            Wish::DeletedWithUninstall
        }
        _ if deleting => Wish::DeletedAsItIs,
        Some(_) => Wish::UninstallAsked,
        None if uninstalls() => Wish::RemovedWithUninstall,
        None => Wish::RemovedAsItIs,
    }
}

/// Returns whether a package is taken off the host before its resource goes.
///
/// What was installed decides, and the resource as it is now may still say otherwise: a person who
/// edits it while it is being deleted lets an uninstall that fails go, or asks for one in time.
fn goes_with_resource(uninstalls: bool, wanted: Option<&Package>, entry: &Entry) -> bool {
    match wanted {
        Some(wanted) if wanted.version.as_str() == entry.version => wanted.uninstall.enabled,
        Some(wanted) => uninstalls && wanted.uninstall.enabled,
        None => uninstalls,
    }
}

fn is_higher(wanted: &Package, entry: &Entry) -> bool {
    entry
        .version
        .parse::<Version>()
        .is_ok_and(|version| version.precedence(&wanted.version) == Ordering::Less)
}

/// Compares the wanted package with what was put there in the same version.
fn same_version(scope: &Scope<'_>, wanted: &Package, entry: &Entry) -> Wish {
    let Some(name) = &entry.snapshot else { return Wish::Restated };
    if name == scope.snapshot_name(wanted) {
        return Wish::Same;
    }
    let changed = changed_keys(scope, wanted, entry);
    let before = scope.input.observed.snapshots.get(name).map(|snapshot| &snapshot.package);
    if wanted.interrupt_for(&changed).is_some() {
        Wish::OtherConfigInterrupting
    } else if !changed.is_empty() || before.is_some_and(|before| wanted.has_other_env(before)) {
        Wish::OtherConfig
    } else if before.is_some_and(|before| wanted.has_other_image(before)) {
        Wish::OtherImage
    } else {
        Wish::Restated
    }
}

/// Returns the entry that says what is on the host: the wanted version's, unless another version
/// was begun on top of it and not finished, as after a commit that is reverted while its nodes are
/// being visited: what is on the host is then neither of the two. One of which nothing ran says
/// nothing of the host, and counts only while it is to be put there.
fn standing_entry<'a>(
    scope: &Scope<'_>,
    entries: &'a Entries,
    name: &str,
    wanted: Option<&Package>,
) -> Option<&'a Entry> {
    let version = wanted.map(|wanted| wanted.version.as_str());
    let says = |entry: &&Entry| !entry.untried || is_put_there(scope, wanted, entry);
    let of_name = || entries.values().filter(|entry| entry.name == name).filter(says);
    let mut few = of_name();
    if let (only, None) = (few.next(), few.next()) {
        return only; // Most packages at most times.
    }
    let exact = of_name().find(|entry| Some(entry.version.as_str()) == version);
    let last = |entries: &mut dyn Iterator<Item = &'a Entry>| {
        entries.max_by_key(|entry| (entry.state != State::Complete, entry.since))
    };
    let Some(exact) = exact else { return last(&mut of_name()) };
    let overlaid = of_name().filter(|other| {
        other.version != exact.version
            && !exact.untried
            && other.state != State::Complete
            && other.since >= exact.since
    });
    last(&mut { overlaid }).or(Some(exact))
}

/// Returns whether the entry's version is what is to come onto the host, or to stay there.
fn is_put_there(scope: &Scope<'_>, wanted: Option<&Package>, entry: &Entry) -> bool {
    let wanted = wanted.filter(|wanted| !scope.resource.deleting && !wanted.uninstall.apply);
    wanted.is_some_and(|wanted| wanted.version.as_str() == entry.version)
}

fn standing<'a>(
    scope: &Scope<'a>,
    name: &'a str,
    wanted: Option<&'a Package>,
    entry: Option<&'a Entry>,
    record: Option<&Record>,
) -> Standing<'a> {
    let wish = wish(scope, wanted, entry);
    let interrupt = interrupt::interrupt(scope, wanted, entry, record, wish);
    Standing { name, wanted, entry, wish, interrupt }
}
