//! One history as it goes: the world, what really happened on its hosts, and what was broken.

use std::fmt;
use std::time::Duration;

use nodewright::model::{Action, Rollout};
use nodewright::plan::lifecycle;
use nodewright::plan::world::{Fate, Tick, World};

use super::coverage::Coverage;
use super::draw::stream;
use super::event::Event;
use super::fleet;
use super::ledger::Ledger;
use super::paces::{Seen, Sight};
use super::policies;
use super::{invariants, people};

/// How much later a tick is than the one before it, at least.
const TICK: Duration = Duration::from_millis(1);

/// The stream of chance that says how people mend what is left at the end.
const WAY_OUT: u64 = 41;

type Held = Result<(), Broken>;

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which: the same word for the same rule, so that a shorter history breaks the same one.
    pub rule: String,
    /// Where and how.
    pub detail: String,
}

impl Broken {
    pub fn new(rule: &str, detail: impl Into<String>) -> Self {
        Self { rule: rule.to_owned(), detail: detail.into() }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.detail)
    }
}

/// A history as it goes.
pub struct Story {
    pub world: World,
    pub ledger: Ledger,
    pub coverage: Coverage,
    /// Specs of resources that were deleted, to create them again.
    pub deleted: Vec<Rollout>,
    /// Words of what the last tick did.
    pub last: Vec<&'static str>,
    /// Makes names of pods and nodes.
    pub serial: u32,
    /// It has policies, and what the daemon knew when it decided last is kept.
    pub paced: bool,
    /// People mend what is left at the end with resets and retries, not with another version.
    pub by_hand: bool,
    sight: Sight,
}

impl Story {
    /// Returns the beginning of the history of a seed.
    pub fn begin(seed: u64) -> Self {
        let mut world = fleet::fleet(&mut stream(seed, 0));
        let paced = policies::is_paced(seed);
        if paced {
            policies::begin(&mut world, seed);
        }
        Self {
            world,
            ledger: Ledger::default(),
            coverage: Coverage::default(),
            deleted: Vec::new(),
            last: Vec::new(),
            serial: 0,
            paced,
            by_hand: paced && stream(seed, WAY_OUT).bool(),
            sight: Sight::default(),
        }
    }

    /// Lets all events happen, then stops the faults: the fleet must converge.
    pub fn play(&mut self, events: &[Event]) -> Result<(), Broken> {
        for event in events {
            self.happen(*event)?;
            self.ledger.learn(&self.world);
            invariants::check(&self.world, &self.ledger)?;
        }
        self.converge()
    }

    /// One tick; returns how many actions changed something.
    pub fn tick_with(
        &mut self,
        mut fate: impl FnMut(&World, &Action) -> Fate,
    ) -> Result<usize, Broken> {
        let Self { world, ledger, coverage, paced, sight, .. } = self;
        // No two ticks have the same time, by which what a visit began is told from what it found.
        world.input.now += TICK;
        let happened = &mut coverage.paces;
        let mut known = None;
        if *paced {
            known = Some(Sight::of(world));
        }
        let tick = world.tick_watched(&mut fate, |world, action| {
            let judged = invariants::judge(world, ledger, action);
            let judged = judged.and_then(|()| judge(known.as_ref(), world, action, happened));
            judged.err().map(|broken| broken.to_string())
        });
        // What a frozen daemon has in its hands was decided by it.
        *sight = known.unwrap_or_default();
        coverage.learn(&tick.plan);
        self.last = tick.plan.actions.iter().map(|action| action.word()).collect();
        let done = tick.done;
        self.verdict(tick)?;
        self.ledger.learn(&self.world);
        Ok(done)
    }

    /// A frozen daemon sends what was in its hands.
    pub fn thaw(&mut self) -> Result<(), Broken> {
        let Self { world, ledger, coverage, sight, .. } = self;
        let happened = &mut coverage.paces;
        let objections = world.thaw(|world, action| {
            let judged = invariants::judge(world, ledger, action);
            let judged = judged.and_then(|()| judge(Some(sight), world, action, happened));
            judged.err().map(|broken| broken.to_string())
        });
        first_objection(&objections)
    }

    fn verdict(&self, tick: Tick) -> Result<(), Broken> {
        if let Some(breach) = tick.breaches.first() {
            let rule = format!("audit agrees ({:?})", breach.invariant);
            return Err(Broken::new(&rule, format!("{}: {}", breach.rollout, breach.detail)));
        }
        first_objection(&tick.objections)
    }

    /// What must hold when the planner has nothing more to do.
    pub fn check_rest(&mut self) -> Result<(), Broken> {
        invariants::counts(&self.world)?;
        people::forgotten_without_mark(&self.world)
    }
}

fn judge(known: Option<&Sight>, world: &World, action: &Action, happened: &mut Seen) -> Held {
    match (known, action) {
        (Some(known), Action::WriteStatus(write)) => known.judge(world, write, happened),
        _ => Ok(()),
    }
}

fn first_objection(objections: &[String]) -> Result<(), Broken> {
    match objections.first() {
        Some(objection) => {
            let (rule, detail) = objection.split_once(": ").unwrap_or((objection, ""));
            Err(Broken::new(rule, detail))
        }
        None => Ok(()),
    }
}

/// Plays the history of a seed. A panic is a broken rule like any other.
pub fn play(seed: u64, events: &[Event]) -> (Result<(), Broken>, Coverage) {
    let played = std::panic::catch_unwind(|| {
        let (played, asked) = lifecycle::watch(|| {
            let mut story = Story::begin(seed);
            let result = story.play(events);
            (result, story.coverage)
        });
        let (result, mut coverage) = played;
        coverage.asked = asked;
        (result, coverage)
    });
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        (Err(Broken::new("no panic", text)), Coverage::default())
    })
}
