//! What the whole planner does first, in every situation of a package on a node.
//!
//! A situation is an entry (stage and state), what is wanted against it, and the record of the
//! visit. The golden file `first.txt` says, for each, the first thing the planner does on the node.
//! If a change of it is as meant: `cp target/tmp/first.txt tests/it/plan/lifecycle_table/`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nodewright::model::{
    Action, CordonMark, Entry, Group, InterruptKind, InterruptRecord, NodePatch, Outcome, Package,
    PatchKind, Phase, Record, Snapshot, Stage, State, Verdict, Work,
};
use nodewright::plan::world::{Fate, World};

use super::super::builders::{PackageExt, interrupt, noon, package, rollout, world};
use super::{STAGES, STATES, compare};

/// What is wanted, against what the entry says was put there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Same,
    KeyThatInterrupts,
    OtherKey,
    SnapshotGone,
    WrittenByUpstream,
    HigherVersion,
    LowerVersion,
    OtherEnv,
    OtherImage,
    OtherLimits,
    LowerVersionAfterUninstall,
    UninstallAsked,
    RemovedWithUninstall,
    RemovedAsItIs,
}

const WANTED: [(Wanted, &str); 14] = [
    (Wanted::Same, "the same version and configuration"),
    (Wanted::KeyThatInterrupts, "a config key changed that configInterrupts names (service)"),
    (Wanted::OtherKey, "a config key changed that nothing names"),
    (Wanted::SnapshotGone, "the same version, but its snapshot was deleted"),
    (Wanted::WrittenByUpstream, "the same version, put there by upstream, without snapshot"),
    (Wanted::HigherVersion, "a higher version"),
    (Wanted::LowerVersion, "a lower version"),
    (Wanted::OtherEnv, "a variable of the environment changed"),
    (Wanted::OtherImage, "the same version from another image"),
    (Wanted::OtherLimits, "the same content with another time limit"),
    (Wanted::LowerVersionAfterUninstall, "a lower version, installed with an uninstall"),
    (Wanted::UninstallAsked, "its uninstall, by uninstall.apply"),
    (Wanted::RemovedWithUninstall, "nothing of it any more, installed with an uninstall"),
    (Wanted::RemovedAsItIs, "nothing of it any more, installed without an uninstall"),
];

/// How far the visit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visit {
    Never,
    Open,
    OpenAndOwing,
    Interrupting,
    Interrupted,
    Failed,
}

const VISITS: [(Visit, &str); 6] = [
    (Visit::Never, "no record"),
    (Visit::Open, "a visit, nothing owed"),
    (Visit::OpenAndOwing, "a visit that holds the node and owes a reboot"),
    (Visit::Interrupting, "a visit in the middle of its reboot"),
    (Visit::Interrupted, "a visit after its reboot"),
    (Visit::Failed, "the last visit, to another target, failed"),
];

const INTERRUPTS: [(Option<InterruptKind>, &str); 2] = [
    (None, "a package without interrupt"),
    (Some(InterruptKind::Reboot), "a package that reboots"),
];

fn plain(version: &str, kind: Option<InterruptKind>) -> Package {
    let package = package("kernel", version)
        .on_config("grub*", InterruptKind::Service)
        .with_config("grub.conf", "a")
        .with_config("motd", "a");
    if let Some(kind) = kind { package.interrupting(kind) } else { package }
}

/// What was installed: version 1.1.0.
fn installed(wanted: Wanted, kind: Option<InterruptKind>) -> Package {
    let package = plain("1.1.0", kind);
    match wanted {
        Wanted::LowerVersionAfterUninstall
        | Wanted::UninstallAsked
        | Wanted::RemovedWithUninstall => package.with_uninstall(),
        Wanted::Same
        | Wanted::SnapshotGone
        | Wanted::WrittenByUpstream
        | Wanted::KeyThatInterrupts
        | Wanted::OtherKey
        | Wanted::HigherVersion
        | Wanted::LowerVersion
        | Wanted::OtherEnv
        | Wanted::OtherImage
        | Wanted::OtherLimits
        | Wanted::RemovedAsItIs => package,
    }
}

fn wanted(wanted: Wanted, kind: Option<InterruptKind>) -> Option<Package> {
    let same = plain("1.1.0", kind);
    Some(match wanted {
        Wanted::Same | Wanted::SnapshotGone | Wanted::WrittenByUpstream => same,
        Wanted::KeyThatInterrupts => same.with_config("grub.conf", "b"),
        Wanted::OtherKey => same.with_config("motd", "b"),
        Wanted::HigherVersion => plain("1.2.0", kind),
        Wanted::LowerVersion | Wanted::LowerVersionAfterUninstall => plain("1.0.0", kind),
        Wanted::OtherEnv => same.with_env("X", "2"),
        Wanted::OtherImage => Package { image: "registry.example/other".to_owned(), ..same },
        Wanted::OtherLimits => {
            Package { stage_timeout: Some(std::time::Duration::from_mins(5)), ..same }
        }
        Wanted::UninstallAsked => same.with_uninstall().asked_to_go(),
        Wanted::RemovedWithUninstall | Wanted::RemovedAsItIs => return None,
    })
}

fn entry(stage: Stage, state: State, snapshot: Option<String>) -> Entry {
    Entry {
        name: "kernel".to_owned(),
        version: "1.1.0".to_owned(),
        image: "registry.example/kernel".to_owned(),
        container_sha: None,
        stage,
        state,
        restarts: (state == State::Erroring).then_some(1),
        untried: false,
        applied: None,
        snapshot,
        since: Some(noon()),
        left: None,
        other: BTreeMap::new(),
    }
}

fn record(visit: Visit, target: String) -> Option<Record> {
    let held = matches!(visit, Visit::OpenAndOwing | Visit::Interrupting | Visit::Interrupted);
    let owing = matches!(visit, Visit::OpenAndOwing | Visit::Interrupting);
    let begun = matches!(visit, Visit::Interrupting | Visit::Interrupted);
    let phase = match visit {
        Visit::Never => return None,
        Visit::Open | Visit::OpenAndOwing => Phase::Picked,
        Visit::Interrupting => Phase::Interrupting,
        Visit::Interrupted => Phase::Interrupted,
        Visit::Failed => Phase::Released,
    };
    let id = entry(Stage::Apply, State::InProgress, None).id();
    let due = owing.then(|| ("kernel".to_owned(), interrupt(InterruptKind::Reboot)));
    Some(Record {
        cordoned: None,
        recordons: 0,
        gpus_before: None,
        v: 1,
        cr_uid: "uid-tuning".to_owned(),
        node_uid: "uid-node-00".to_owned(),
        machine_id: "machine-node-00".to_owned(),
        target: if visit == Visit::Failed { "another".to_owned() } else { target },
        generation: 1,
        visit: 7,
        compartment: "__default__".to_owned(),
        batch: 1,
        order: 0,
        picked: noon(),
        phase,
        held,
        prior_unschedulable: false,
        boot_before: begun.then(|| "boot-node-00-0".to_owned()),
        boot_last: (visit == Visit::Interrupted).then(|| "boot-node-00-0".to_owned()),
        hosts_lost: 0,
        interrupt: begun.then(|| InterruptRecord {
            kind: InterruptKind::Reboot,
            services: Vec::new(),
            package: id,
            since: noon(),
        }),
        interrupts_due: due.into_iter().collect(),
        attempts: BTreeMap::new(),
        outcome: (visit == Visit::Failed).then_some(Outcome::Erroring),
        reason: None,
        message: None,
    })
}

/// Returns the world of a situation: one node, one package, everything else in order.
fn situation(
    visit: Visit,
    kind: Option<InterruptKind>,
    relation: Wanted,
    at: Option<(Stage, State)>,
) -> World {
    let wanted = rollout(1, wanted(relation, kind).into_iter().collect());
    let target = wanted.target();
    let mut world = world(1, wanted);
    world.pass(600);
    let before = installed(relation, kind);
    let name = before.snapshot_name("tuning");
    let snapshot = (relation != Wanted::WrittenByUpstream).then(|| match relation {
        Wanted::SnapshotGone => "nw-gone".to_owned(),
        _ => name.clone(),
    });
    let there =
        Snapshot { rollout: "tuning".to_owned(), uid: "uid-snapshot".to_owned(), package: before };
    world.input.observed.snapshots.insert(name, there);
    let record = record(visit, target);
    let node = world.input.observed.nodes.get_mut("node-00").expect("the node");
    if record.as_ref().is_some_and(|record| record.held) {
        node.unschedulable = true;
        node.cordons.push(CordonMark::Rollout("tuning".to_owned()));
    }
    let state = node.rollouts.entry("tuning".to_owned()).or_default();
    if let Some((stage, state_word)) = at {
        let entry = entry(stage, state_word, snapshot);
        state.entries.insert(entry.id(), entry);
    }
    state.record = record;
    world
}

/// Returns the first thing that happens on the node, or why nothing does.
fn first_step(world: &mut World) -> String {
    for _ in 0..10 {
        let (plan, breaches, done) = world.tick(|_| Fate::Done);
        let step = plan.actions.iter().find_map(|action| match action {
            Action::PatchNode(patch) => Some(patched(patch)),
            // Images come first wherever a node is to be held: that is told elsewhere.
            Action::CreateExecutor(spec) if spec.work.group() == Group::Pull => None,
            Action::CreateExecutor(spec) => Some(started(&spec.work)),
            Action::CreateSnapshot(_)
            | Action::DeleteSnapshot(_)
            | Action::WriteStatus(_)
            | Action::WriteNodeMetadata(_)
            | Action::Evict(_)
            | Action::DeleteExecutors { .. }
            | Action::PatchTaints(_)
            | Action::SetFinalizer(_)
            | Action::CleanNode(_)
            | Action::DeleteUpstreamWork { .. }
            | Action::DeleteExecutor { .. } => None,
        });
        let wrong: Vec<String> =
            breaches.iter().map(|breach| format!(" [AUDIT: {}]", breach.invariant)).collect();
        if let Some(step) = step {
            return format!("{step}{}", wrong.concat());
        }
        if done == 0 {
            let Verdict { kind, reason } = &plan.verdicts["tuning"]["node-00"];
            let kind = format!("{kind:?}").to_lowercase();
            return if reason.word() == "UpToDate" {
                kind
            } else {
                format!("{kind}: {}", reason.word())
            };
        }
    }
    panic!("the planner does not come to rest");
}

fn patched(patch: &NodePatch) -> String {
    let record = patch.record.as_ref();
    let mut text = match (&patch.kind, record.and_then(|record| record.outcome)) {
        (_, Some(Outcome::Complete)) => "end complete".to_owned(),
        (_, Some(Outcome::Erroring)) => "end erroring".to_owned(),
        (_, Some(Outcome::Released)) => "let go".to_owned(),
        (PatchKind::Pick { .. }, None) if record.is_some_and(|record| record.visit != 7) => {
            "pick:".to_owned()
        }
        (_, None) => "record:".to_owned(),
    };
    let entries = || patch.entries.iter().flat_map(BTreeMap::values);
    let versions = entries().count();
    for entry in entries().filter(|entry| versions == 1 || entry.version != "1.1.0") {
        let beside = if versions > 1 { " beside 1.1.0" } else { "" };
        let _ = write!(text, " {} {} {}{beside}", entry.version, entry.stage, entry.state);
    }
    if let Some(record) = record {
        for interrupt in record.interrupts_due.values() {
            let _ = write!(text, ", owes {}", interrupt.kind);
        }
        if record.phase == Phase::Interrupting {
            text.push_str(", interrupting");
        }
    }
    if patch.unschedulable == Some(true) {
        text.push_str(", cordon");
    }
    text
}

fn started(work: &Work) -> String {
    let version = &work.package().version;
    match work {
        Work::Pull { .. } => format!("run: {version} pull"),
        Work::Uninstall { .. } => format!("run: {version} uninstall"),
        Work::Install { stages, .. } => {
            let stages: Vec<&str> = stages.iter().map(|stage| stage.as_str()).collect();
            format!("run: {version} {}", stages.join(" and "))
        }
        Work::Interrupt { interrupt, .. } => format!("run: {version} interrupt {}", interrupt.kind),
        Work::Verify { .. } => format!("run: {version} post-interrupt"),
    }
}

/// Returns what is done, and below it in which situations.
fn section(visit: Visit, kind: Option<InterruptKind>, relation: Wanted) -> String {
    let mut by_step: BTreeMap<String, Vec<(String, Vec<&str>)>> = BTreeMap::new();
    let mut note = |stage: &str, state: Option<&'static str>, step: String| {
        let stages = by_step.entry(step).or_default();
        if stages.last().is_none_or(|(last, _)| last != stage) {
            stages.push((stage.to_owned(), Vec::new()));
        }
        if let (Some((_, states)), Some(state)) = (stages.last_mut(), state) {
            states.push(state);
        }
    };
    let none = first_step(&mut situation(visit, kind, relation, None));
    note("no entry", None, none);
    for stage in STAGES {
        for state in STATES {
            let step = first_step(&mut situation(visit, kind, relation, Some((stage, state))));
            note(stage.as_str(), Some(state.as_str()), step);
        }
    }
    let mut text = String::new();
    for (step, stages) in by_step {
        let _ = writeln!(text, "  {step}");
        for (stage, states) in stages {
            let all = states.len() == STATES.len();
            let states = if all { "any state".to_owned() } else { states.join(", ") };
            let _ = writeln!(text, "      {}", format!("{stage}: {states}").trim_end_matches(": "));
        }
    }
    text
}

#[test]
fn every_situation_is_as_written_down() {
    let mut text = String::from(
        "What the planner does first, in every situation of version 1.1.0 of a package on a node.\n\
         Written by tests/it/plan/lifecycle_table/first.rs, which says how to update it.\n",
    );
    // Situations with the same answers are told together, in the order of the first of each.
    let mut sections: Vec<(String, Vec<String>)> = Vec::new();
    for (visit, visit_text) in VISITS {
        for (kind, kind_text) in INTERRUPTS {
            for (relation, wanted_text) in WANTED {
                let heading = format!("{visit_text}; {kind_text}; wanted: {wanted_text}");
                let body = section(visit, kind, relation);
                match sections.iter_mut().find(|(known, _)| *known == body) {
                    Some((_, headings)) => headings.push(heading),
                    None => sections.push((body, vec![heading])),
                }
            }
        }
    }
    for (body, headings) in sections {
        let _ = write!(text, "\n{}\n{body}", headings.join("\n"));
    }
    compare("first.txt", &text, include_str!("first.txt"));
    assert!(!text.contains("AUDIT"), "a plan breaks an invariant, see first.txt");
}
