//! Draws a history from a seed: weighted tables, and one stream of chance for each concern, so that
//! a new event changes what happens in its own table and nowhere else.

use fastrand::Rng;
use nodewright::plan::world::End;

use super::event::{Change, Edit, Event, Hand, PodKind};
use super::policies::is_paced;

/// One row of a table: how often, and what.
type Row = (u32, fn(&mut Rng) -> Event);

/// The concerns, by how often they come up. The last is one of histories with policies only.
const CONCERNS: &[(u32, &[Row])] = &[
    (34, DAEMON),
    (30, HOSTS),
    (8, PEOPLE),
    (7, SPECS),
    (3, FLEET),
    (8, PODS),
    (10, TIME),
    (16, POLICIES),
];

const DAEMON: &[Row] = &[
    (60, |_| Event::Tick { faults: 0 }),
    (16, |rng| Event::Tick { faults: rng.u32(1..) }),
    (3, |_| Event::Rest),
    (4, |_| Event::FallBehind),
    (8, |_| Event::CatchUp),
    (6, |_| Event::Thaw),
];

const HOSTS: &[Row] = &[
    (60, |rng| Event::End { which: rng.u16(..), end: End::Success }),
    (6, |rng| Event::End { which: rng.u16(..), end: End::Failure }),
    (8, |rng| Event::FailAgain { which: rng.u16(..) }),
    (3, |rng| Event::End { which: rng.u16(..), end: End::Partly }),
    (5, |rng| Event::End { which: rng.u16(..), end: End::Disruption }),
    (2, |rng| Event::End { which: rng.u16(..), end: End::Vanish }),
    (1, |rng| Event::End { which: rng.u16(..), end: End::Gone }),
    (2, |rng| Event::Stall { which: rng.u16(..), reason: "ErrImagePull" }),
    (1, |rng| Event::Stall { which: rng.u16(..), reason: "ContainerCreating" }),
    (2, |rng| Event::Reboot { node: rng.u8(..) }),
    (1, |rng| Event::GoDown { node: rng.u8(..) }),
    (4, |rng| Event::ComeBack { node: rng.u8(..) }),
    (2, |rng| Event::Ready { node: rng.u8(..), ready: false }),
    (4, |rng| Event::Ready { node: rng.u8(..), ready: true }),
    (1, |rng| Event::Gpus { node: rng.u8(..), offered: false }),
    (2, |rng| Event::Gpus { node: rng.u8(..), offered: true }),
    (1, |_| Event::Reject { rejecting: true }),
    (4, |_| Event::Reject { rejecting: false }),
];

const PEOPLE: &[Row] = &[
    (3, |rng| Event::Cordon { node: rng.u8(..) }),
    (3, |rng| Event::Uncordon { node: rng.u8(..), by: Hand::Person }),
    (3, |rng| Event::Uncordon { node: rng.u8(..), by: Hand::Controller }),
    (5, |rng| Event::Fight { which: rng.u8(..) }),
    (1, |rng| Event::Claim { node: rng.u8(..), claimed: true }),
    (3, |rng| Event::Claim { node: rng.u8(..), claimed: false }),
    (1, |rng| Event::Hold { node: rng.u8(..), held: true }),
    (3, |rng| Event::Hold { node: rng.u8(..), held: false }),
    (1, |rng| Event::Reset { node: rng.u8(..), which: rng.u8(..) }),
    (1, |rng| Event::ResetAll { node: rng.u8(..), rollout: rng.u8(..) }),
    (1, |rng| Event::Pause { rollout: rng.u8(..), paused: true }),
    (3, |rng| Event::Pause { rollout: rng.u8(..), paused: false }),
    (1, |rng| Event::Disable { rollout: rng.u8(..), disabled: true }),
    (3, |rng| Event::Disable { rollout: rng.u8(..), disabled: false }),
    (1, |rng| Event::Approve { rollout: rng.u8(..), approved: false }),
    (3, |rng| Event::Approve { rollout: rng.u8(..), approved: true }),
];

const SPECS: &[Row] = &[
    (6, |rng| edit(Edit::Version { which: rng.u8(..), to: rng.u8(..) }, rng)),
    (6, |rng| edit(Edit::Config { which: rng.u8(..), key: rng.u8(..), value: rng.u8(..) }, rng)),
    (2, |rng| edit(Edit::DropConfig { which: rng.u8(..), key: rng.u8(..) }, rng)),
    (2, |rng| edit(Edit::Image { which: rng.u8(..), to: rng.u8(..) }, rng)),
    (1, |rng| edit(Edit::Interrupt { which: rng.u8(..), to: rng.u8(..) }, rng)),
    (3, |rng| edit(Edit::Add { which: rng.u8(..) }, rng)),
    (2, |rng| edit(Edit::Remove { which: rng.u8(..) }, rng)),
    (1, |rng| edit(Edit::Depend { which: rng.u8(..), on: rng.u8(..) }, rng)),
    (1, |rng| edit(Edit::UninstallEnabled { which: rng.u8(..) }, rng)),
    (1, |rng| edit(Edit::UninstallApply { which: rng.u8(..) }, rng)),
    (1, |rng| edit(Edit::Serial, rng)),
    (2, |rng| edit(Edit::Budget { to: rng.u8(..) }, rng)),
    (1, |rng| edit(Edit::Sequencing, rng)),
    (1, |rng| edit(Edit::Priority { to: rng.u8(..) }, rng)),
    (1, |rng| edit(Edit::Drain { to: rng.u8(..) }, rng)),
    (1, |rng| edit(Edit::Policy { to: rng.u8(..) }, rng)),
    (1, |rng| Event::Delete { rollout: rng.u8(..) }),
    (5, |rng| Event::Create { rollout: rng.u8(..) }),
    (1, |rng| Event::Open { rollout: rng.u8(..), open: false, why: rng.u8(..) }),
    (3, |rng| Event::Open { rollout: rng.u8(..), open: true, why: 0 }),
    (1, |_| Event::Halt { halted: true }),
    (4, |_| Event::Halt { halted: false }),
    (1, |rng| edit(Edit::Runtime { to: rng.u8(..) }, rng)),
];

const FLEET: &[Row] = &[
    (3, |rng| Event::Join { pool: rng.bool() }),
    (1, |rng| Event::Leave { node: rng.u8(..) }),
    (2, |rng| Event::Replace { node: rng.u8(..) }),
    (3, |rng| Event::Relabel { node: rng.u8(..) }),
    (1, |rng| Event::Ignore { node: rng.u8(..), ignored: true }),
    (3, |rng| Event::Ignore { node: rng.u8(..), ignored: false }),
    (1, |rng| Event::Taint { node: rng.u8(..), tainted: true }),
    (3, |rng| Event::Taint { node: rng.u8(..), tainted: false }),
    (1, |rng| Event::Deleting { node: rng.u8(..) }),
    (1, |rng| Event::Spoil { node: rng.u8(..), rollout: rng.u8(..), spoilt: true }),
    (3, |rng| Event::Spoil { node: rng.u8(..), rollout: rng.u8(..), spoilt: false }),
    (1, |rng| Event::NewHost { node: rng.u8(..) }),
];

const PODS: &[Row] = &[
    (6, |rng| Event::Arrive { node: rng.u8(..), kind: PodKind::Web }),
    (4, |rng| Event::Arrive { node: rng.u8(..), kind: PodKind::Training }),
    (2, |rng| Event::Arrive { node: rng.u8(..), kind: PodKind::Guarded }),
    (1, |rng| Event::Arrive { node: rng.u8(..), kind: PodKind::Hopeless }),
    (1, |rng| Event::Arrive { node: rng.u8(..), kind: PodKind::Doubled }),
    (1, |rng| Event::Arrive { node: rng.u8(..), kind: PodKind::Unready }),
    (1, |rng| Event::Arrive { node: rng.u8(..), kind: PodKind::Unmanaged }),
    (1, |rng| Event::Arrive { node: rng.u8(..), kind: PodKind::EmptyDir }),
    (1, |rng| Event::Arrive { node: rng.u8(..), kind: PodKind::DaemonSet }),
    (1, |rng| Event::Arrive { node: rng.u8(..), kind: PodKind::Mirror }),
    (1, |rng| Event::Arrive { node: rng.u8(..), kind: PodKind::Tolerating }),
    (1, |rng| Event::Arrive { node: rng.u8(..), kind: PodKind::Completed }),
    (1, |rng| Event::Arrive { node: rng.u8(..), kind: PodKind::System }),
    (20, |rng| Event::Finish { which: rng.u16(..) }),
    (3, |_| Event::Unguard),
];

const TIME: &[Row] = &[
    (60, |rng| Event::Pass { seconds: rng.u32(1..30) }),
    (20, |rng| Event::Pass { seconds: rng.u32(30..400) }),
    (3, |rng| Event::Pass { seconds: rng.u32(900..2_000) }),
    (2, |rng| Event::Pass { seconds: rng.u32(3_000..8_000) }),
];

const POLICIES: &[Row] = &[
    (10, |rng| Event::GoOn { rounds: rng.u8(1..5) }),
    (4, |rng| Event::Ruin { which: rng.u16(..), whole: true }),
    (4, |rng| Event::Ruin { which: rng.u16(..), whole: false }),
    (3, |rng| Event::Move { which: rng.u8(..), to: rng.u8(..), at_work: true }),
    (2, |rng| Event::Move { which: rng.u8(..), to: rng.u8(..), at_work: false }),
    (1, |rng| Event::ResetBatches { which: rng.u8(..), stopped: false }),
    (3, |rng| Event::ResetBatches { which: rng.u8(..), stopped: true }),
    (3, |rng| Event::Retry { which: rng.u8(..) }),
    (2, |rng| Event::Correct { which: rng.u8(..), to: rng.u8(..) }),
    (1, |rng| Event::ResetOption { rollout: rng.u8(..), to: rng.u8(..) }),
    (1, |rng| edit(Edit::Policy { to: rng.u8(..) }, rng)),
    (1, |rng| change(Change::Anew { seed: rng.u32(..) }, rng)),
    (2, |rng| change(Change::Pace { which: rng.u8(..), seed: rng.u32(..) }, rng)),
    (1, |rng| change(Change::Add { which: rng.u8(..), seed: rng.u32(..) }, rng)),
    (1, |rng| change(Change::Drop { which: rng.u8(..) }, rng)),
    (1, |rng| change(Change::Reset, rng)),
    (1, |rng| change(Change::Gone, rng)),
];

fn change(change: Change, rng: &mut Rng) -> Event {
    Event::Policy { which: rng.u8(..), change }
}

fn edit(edit: Edit, rng: &mut Rng) -> Event {
    Event::Edit { rollout: rng.u8(..), edit }
}

/// Returns the stream of one concern of a seed.
pub fn stream(seed: u64, concern: u64) -> Rng {
    Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ concern.wrapping_mul(0xff51_afd7))
}

/// Returns `length` events.
pub fn history(seed: u64, length: usize) -> Vec<Event> {
    let concerns = &CONCERNS[..CONCERNS.len() - usize::from(!is_paced(seed))];
    let mut order = stream(seed, 1);
    let mut streams: Vec<Rng> =
        (2..).map(|concern| stream(seed, concern)).take(concerns.len()).collect();
    (0..length)
        .map(|_| {
            let concern = weighted(&mut order, concerns.iter().map(|(weight, _)| *weight));
            let (table, rng) = (concerns[concern].1, &mut streams[concern]);
            let row = weighted(rng, table.iter().map(|(weight, _)| *weight));
            table[row].1(rng)
        })
        .collect()
}

/// Returns the number of a row, drawn by weight.
fn weighted(rng: &mut Rng, weights: impl Iterator<Item = u32> + Clone) -> usize {
    let mut left = rng.u32(0..weights.clone().sum());
    for (row, weight) in weights.enumerate() {
        if left < weight {
            return row;
        }
        left -= weight;
    }
    unreachable!("less is drawn than all weights together")
}
