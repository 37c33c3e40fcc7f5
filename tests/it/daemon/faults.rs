//! Random faults from a seed: safe throughout, and whole again once they stop.
//!
//! A failure prints its seed; `NODEWRIGHT_SEED=<n> cargo test daemon::faults` repeats it.
#![expect(clippy::disallowed_macros, reason = "what was measured is told in the test's output")]
#![expect(clippy::disallowed_methods, reason = "the seed to repeat comes from the environment")]

use std::time::Duration;

use fastrand::Rng;
use nodewright::sim::scene::{Owner, Workload};
use nodewright::sim::{Fault, Matching, Rule, Verb};

use super::safety::{assert_ran_once, assert_safe};
use super::{assert_cleaned_up, create, package, quick, without_git};
use crate::fleet::{Fleet, is_complete, until};

/// Histories in an ordinary run of the tests.
const SEEDS: [u64; 3] = [1, 2, 3];
const FAULTS: usize = 40;
const CEILING: usize = 2;

#[tokio::test(start_paused = true)]
async fn random_faults_are_safe_and_pass() {
    let wanted = std::env::var("NODEWRIGHT_SEED").ok().and_then(|text| text.parse().ok());
    let seeds = wanted.map_or(SEEDS.to_vec(), |seed| vec![seed]);
    for seed in seeds {
        println!("NODEWRIGHT_SEED={seed}");
        history(seed).await;
    }
}

async fn history(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let fleet = Fleet::with(4, quick()).await;
    for node in 1..=4 {
        let set = Owner::ReplicaSet { name: format!("web-{node}"), replicas: 1 };
        let web = Workload::new(&format!("web-{node}"), &format!("gpu-00{node}")).owner(set);
        fleet.scene().add_workload(&web).await.expect("a workload");
    }
    let kernel = package("kernel", "1.0.0", "interrupt:\n  type: reboot");
    let sysctl = package("sysctl", "1.0.0", "");
    create(&fleet, &format!("count: {CEILING}"), &format!("{kernel}{sysctl}")).await;
    let daemon = without_git(&fleet, "daemon");
    for _ in 0..FAULTS {
        strike(&fleet, &mut rng);
        fleet.clock.sleep(Duration::from_millis(rng.u64(50..1500))).await;
        assert_safe(&fleet, &["kernel"], CEILING);
    }
    fleet.cluster.faults().heal();
    fleet.kubelet.rewrite(|script| script.rules = quick().script.rules);
    until(&daemon, fleet.clock, is_complete).await;
    assert_cleaned_up(&fleet).await;
    daemon.stop().await.expect("a graceful stop");
    assert_safe(&fleet, &["kernel"], CEILING);
    assert_ran_once(&fleet, 1);
    fleet.assert_released().await;
    fleet.stop().await;
}

/// Lets one thing go wrong.
fn strike(fleet: &Fleet, rng: &mut Rng) {
    let faults = fleet.cluster.faults();
    let ours = Matching::writes().user_agent("daemon");
    let resource = ["nodes", "pods", "nodewrights", "configmaps", "leases"][rng.usize(0..5)];
    let watched = ["nodes", "pods", "nodewrights"][rng.usize(0..3)];
    let (skip, times) = (rng.usize(0..4), rng.usize(1..3));
    let narrow = ours.clone().resource(resource);
    match rng.u8(0..11) {
        0 => faults.after(narrow, skip, times, Fault::Conflict),
        1 => {
            let fault = Fault::TooManyRequests { retry_after_seconds: 1 };
            faults.after(narrow, skip, times, fault);
        }
        2 => faults.after(narrow, skip, times, Fault::InternalError),
        3 => faults.after(narrow, skip, times, Fault::AnswerLost),
        4 => faults.after(narrow, skip, 1, Fault::NeverAnswered),
        5 => faults.after(ours, skip, times, Fault::ConnectionRefused),
        6 => faults.drop_watches(watched),
        7 => fleet.cluster.expire_watches(watched),
        8 => {
            faults.resume_watches(watched);
            faults.stall_watches(watched);
        }
        9 => {
            let lists = Matching::any().user_agent("daemon").verb(Verb::List);
            faults.next(lists, times, Fault::Unavailable);
            for plural in ["nodes", "pods", "nodewrights"] {
                faults.resume_watches(plural);
            }
        }
        _ => {
            let slow = Rule::any().takes(Duration::from_millis(rng.u64(0..4000)));
            fleet.kubelet.rewrite(|script| script.rules = vec![slow]);
        }
    }
}
