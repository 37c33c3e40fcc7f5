//! Faults on demand, each one reproducible: no chance is involved.
//!
//! A test says which requests (`Matching`), from which one on and how many, and what happens to
//! them. Faults count requests in the order of arrival, so the same run meets the same fault.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::log::{Request, Verb};

/// The knobs; cheap to clone, all clones turn the same ones.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    knobs: Mutex<Knobs>,
    /// Changes whenever a knob that a waiting request looks at is turned.
    turned: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Knobs {
    rules: Vec<Rule>,
    /// After how many mutating requests each user agent is cut off.
    cuts: BTreeMap<String, usize>,
    mutating: BTreeMap<String, usize>,
    stalled: Vec<String>,
    /// How late each user agent learns of changes.
    late: BTreeMap<String, Duration>,
    /// How often watches of a resource were broken off.
    dropped: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct Rule {
    matching: Matching,
    skip: usize,
    times: usize,
    fault: Fault,
}

/// Which requests a fault is for; what is not set matches everything.
#[derive(Debug, Clone, Default)]
pub struct Matching {
    user_agent: Option<String>,
    verb: Option<Verb>,
    resource: Option<String>,
    subresource: Option<String>,
    name: Option<String>,
    mutating: bool,
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// 409 as if somebody had just written the object.
    Conflict,
    /// 429 with a `Retry-After` of so many seconds.
    TooManyRequests { retry_after_seconds: u32 },
    /// 403 as for an account without the right.
    Forbidden,
    /// 500.
    InternalError,
    /// 503 as from a server that is starting.
    Unavailable,
    /// The request is carried out and its answer replaced by a broken connection.
    AnswerLost,
    /// The request is carried out and never answered: the client's time-out decides.
    NeverAnswered,
    /// The request is not carried out and the connection breaks.
    ConnectionRefused,
    /// The request waits so long, on the cluster's clock, before it is carried out.
    Delay(Duration),
}

/// What the server does with a request that just arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ruling {
    Serve,
    Fault(Fault),
    /// Carried out, but the client hears nothing any more.
    ServeThenFreeze,
    /// Neither carried out nor answered.
    Freeze,
}

impl Matching {
    /// Returns what matches every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Returns what matches every request that changes something.
    pub fn writes() -> Self {
        Self { mutating: true, ..Self::default() }
    }

    /// Narrows to one client.
    pub fn user_agent(mut self, user_agent: &str) -> Self {
        self.user_agent = Some(user_agent.to_owned());
        self
    }

    /// Narrows to one verb.
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Narrows to one resource, by plural.
    pub fn resource(mut self, plural: &str) -> Self {
        self.resource = Some(plural.to_owned());
        self
    }

    /// Narrows to one subresource; the empty string is the object itself.
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Narrows to objects of one name.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    fn matches(&self, request: &Request) -> bool {
        let same = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        same(&self.user_agent, &request.user_agent)
            && same(&self.resource, &request.resource)
            && same(&self.subresource, &request.subresource)
            && same(&self.name, &request.name)
            && self.verb.is_none_or(|verb| verb == request.verb)
            && (!self.mutating || request.verb.is_mutating())
    }
}

impl Faults {
    /// Lets `fault` happen to the next `times` matching requests.
    pub fn next(&self, matching: Matching, times: usize, fault: Fault) {
        self.after(matching, 0, times, fault);
    }

    /// Lets `skip` matching requests pass, then `fault` happen to the `times` that follow.
    pub fn after(&self, matching: Matching, skip: usize, times: usize, fault: Fault) {
        self.turn(|knobs| knobs.rules.push(Rule { matching, skip, times, fault }));
    }

    /// Cuts a client off at its `count`-th mutating request: that one is carried out, its answer
    /// and everything after it never happens, as if the client was killed there. 0 cuts at once.
    pub fn cut_after(&self, user_agent: &str, count: usize) {
        self.turn(|knobs| {
            knobs.cuts.insert(user_agent.to_owned(), count);
        });
    }

    /// Waits until a client has been cut off; its task can then be dropped.
    pub async fn cut(&self, user_agent: &str) {
        let mut turned = self.0.turned.subscribe();
        while !self.is_cut(user_agent) {
            if turned.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns whether a client has been cut off.
    pub fn is_cut(&self, user_agent: &str) -> bool {
        let knobs = self.knobs();
        let sent = knobs.mutating.get(user_agent).copied().unwrap_or(0);
        knobs.cuts.get(user_agent).is_some_and(|count| sent >= *count)
    }

    /// Returns how many mutating requests a client has sent, refused ones included.
    pub fn mutating_requests(&self, user_agent: &str) -> usize {
        self.knobs().mutating.get(user_agent).copied().unwrap_or(0)
    }

    /// Breaks off every open watch of a resource; clients reconnect where they were.
    pub fn drop_watches(&self, plural: &str) {
        self.turn(|knobs| *knobs.dropped.entry(plural.to_owned()).or_default() += 1);
    }

    /// Holds back the events of a resource until `resume_watches`: caches go stale.
    pub fn stall_watches(&self, plural: &str) {
        self.turn(|knobs| knobs.stalled.push(plural.to_owned()));
    }

    /// Lets events of a resource flow again, starting with what was held back.
    pub fn resume_watches(&self, plural: &str) {
        self.turn(|knobs| knobs.stalled.retain(|stalled| stalled != plural));
    }

    /// Sends a client everything that its watches tell so much later, on the cluster's clock: its
    /// caches lag. What it lists, gets and writes is answered at once.
    pub fn delay_watches(&self, user_agent: &str, by: Duration) {
        self.turn(|knobs| _ = knobs.late.insert(user_agent.to_owned(), by));
    }

    /// Takes all faults away; clients that were cut off stay dead, held back events flow.
    pub fn heal(&self) {
        self.turn(|knobs| {
            knobs.rules.clear();
            knobs.stalled.clear();
            knobs.late.clear();
        });
    }

    /// Counts a request that arrived and says what becomes of it.
    pub(super) fn judge(&self, request: &Request) -> Ruling {
        let agent = &request.user_agent;
        if self.is_cut(agent) {
            return Ruling::Freeze;
        }
        let ruling = self.knobs().count(request);
        if self.is_cut(agent) {
            self.turn(|_| {});
            return Ruling::ServeThenFreeze;
        }
        ruling
    }

    /// Returns whether events of a resource are held back from a client.
    pub(super) fn is_silent(&self, plural: &str, user_agent: &str) -> bool {
        self.knobs().stalled.iter().any(|stalled| stalled == plural) || self.is_cut(user_agent)
    }

    /// Returns how much later a client learns of changes.
    pub(super) fn lag(&self, user_agent: &str) -> Duration {
        self.knobs().late.get(user_agent).copied().unwrap_or_default()
    }

    /// Returns how often the watches of a resource were broken off.
    pub(super) fn drops(&self, plural: &str) -> u64 {
        self.knobs().dropped.get(plural).copied().unwrap_or(0)
    }

    /// Returns what tells a waiting watch to look at the knobs again.
    pub(super) fn turned(&self) -> watch::Receiver<u64> {
        self.0.turned.subscribe()
    }

    fn turn(&self, change: impl FnOnce(&mut Knobs)) {
        change(&mut self.knobs());
        self.0.turned.send_modify(|count| *count += 1);
    }

    fn knobs(&self) -> std::sync::MutexGuard<'_, Knobs> {
        self.0.knobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Knobs {
    /// Counts the request against every rule; the first rule that is due decides.
    fn count(&mut self, request: &Request) -> Ruling {
        if request.verb.is_mutating() {
            *self.mutating.entry(request.user_agent.clone()).or_default() += 1;
        }
        let mut ruling = Ruling::Serve;
        for rule in &mut self.rules {
            if !rule.matching.matches(request) || rule.times == 0 {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
            } else if ruling == Ruling::Serve {
                rule.times -= 1;
                ruling = Ruling::Fault(rule.fault.clone());
            }
        }
        ruling
    }
}
