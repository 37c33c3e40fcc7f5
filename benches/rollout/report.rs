//! A measured rollout as people read it: one paragraph as soon as it is measured, one table at the
//! end.

use std::fmt::Write as _;
use std::thread::available_parallelism;

use crate::fleet::{Measurement, REBOOT_TIME};
use crate::requests::Who;
use crate::rows::Row;
use crate::upstream;
use crate::usage::Usage;

/// Requests of one kind that are rarer are left out: fewer than one on a hundred nodes.
const NODES_PER_RARE_REQUEST: usize = 100;

/// What is the same in every row.
pub fn preface() -> String {
    format!(
        "Each rollout has its own etcd and kube-apiserver, without other controllers, and nodes\n\
         whose kubelets `nodewright sim kubelet` plays: 0.5 s a container, a lease every 10 s a\n\
         node, reboots of {REBOOT_TIME}. The daemon is `nodewright run --compat upstream`, as a\n\
         package that is new to a cluster begins with one node otherwise. Wall time is from the\n\
         push of the commit to `complete`; upstream v0.15 has no Git, its time is from the\n\
         creation of the resource. {} cores.\n",
        cores()
    )
}

/// Says everything about one rollout.
pub fn paragraph(row: &Row, measured: &Measurement) -> String {
    let Measurement { wall_seconds, arrival_seconds, requests, .. } = measured;
    let mut text = format!("{row}\n");
    let mut line = |what: &str, value: String| {
        writeln!(text, "  {what:<14} {value}").expect("a String takes everything");
    };
    line(
        "wall time",
        format!("{wall_seconds:.1} s, of which {arrival_seconds:.1} s until the resource is there"),
    );
    line("daemon", format!("{}, peak {}", cpu(measured.daemon), memory(measured.daemon)));
    line("kubelets", format!("{}, peak {}", cpu(measured.kubelets), memory(measured.kubelets)));
    line(
        "kube-apiserver",
        format!("{}, peak {}", cpu(measured.api_server), memory(measured.api_server)),
    );
    line("etcd", format!("{}, peak {}", cpu(measured.etcd), memory(measured.etcd)));
    line("resource", format!("{} bytes", measured.resource_bytes));
    for (name, who) in
        [("daemon's", Who::Daemon), ("kubelets'", Who::Kubelets), ("heartbeats", Who::Heartbeats)]
    {
        let rare = row.nodes / NODES_PER_RARE_REQUEST;
        let kinds: Vec<String> = requests
            .by(who)
            .iter()
            .filter(|(_, count)| *count > rare)
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        line(name, format!("{} requests: {}", requests.sum(who), kinds.join(", ")));
    }
    line("limit", limit(measured));
    if let Some(upstream) = upstream::of(row) {
        let ratio = |theirs: u32, ours: f64| f64::from(theirs) / ours.max(0.01);
        line(
            "upstream",
            format!(
                "{} s ({:.1} times ours), {} writes a node ({:.1}), {} s of CPU ({:.1}), {} MiB \
                 ({:.1})",
                upstream.wall_seconds,
                ratio(upstream.wall_seconds, *wall_seconds),
                upstream.writes_per_node,
                ratio(upstream.writes_per_node, writes_per_node(row, measured)),
                upstream.cpu_seconds,
                ratio(upstream.cpu_seconds, measured.daemon.cpu_seconds),
                upstream.peak_mebibytes,
                ratio(upstream.peak_mebibytes, measured.daemon.peak_mebibytes),
            ),
        );
    }
    text
}

/// The head of the table.
pub fn table_head() -> &'static str {
    "| packages | budget | reboot | nodes | wall s | writes per node | daemon CPU s \
     | daemon peak MiB | API server CPU s | etcd CPU s | kubelets CPU s \
     | requests ours + kubelets' + leases |\n\
     |--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
}

/// One line of the table; in brackets how many times as much upstream took, where it was measured.
pub fn table_row(row: &Row, measured: &Measurement) -> String {
    let upstream = upstream::of(row);
    let beside = |ours: f64, theirs: Option<u32>, digits: usize| {
        let theirs = theirs.map(|theirs| format!(" ({:.1}×)", f64::from(theirs) / ours.max(0.01)));
        format!("{ours:.digits$}{}", theirs.unwrap_or_default())
    };
    let requests = &measured.requests;
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {:.1} | {:.1} | {:.1} | {} + {} + {} |",
        row.packages,
        row.budget.word(),
        row.reboot.word(),
        row.nodes,
        beside(measured.wall_seconds, upstream.map(|it| it.wall_seconds), 1),
        beside(writes_per_node(row, measured), upstream.map(|it| it.writes_per_node), 1),
        beside(measured.daemon.cpu_seconds, upstream.map(|it| it.cpu_seconds), 1),
        beside(measured.daemon.peak_mebibytes, upstream.map(|it| it.peak_mebibytes), 0),
        measured.api_server.cpu_seconds,
        measured.etcd.cpu_seconds,
        measured.kubelets.cpu_seconds,
        requests.sum(Who::Daemon),
        requests.sum(Who::Kubelets),
        requests.sum(Who::Heartbeats),
    )
}

/// Says how fast it could have been: what API server and etcd use is used whoever asks.
fn limit(measured: &Measurement) -> String {
    let Measurement { wall_seconds, requests, daemon, kubelets, api_server, etcd, .. } = measured;
    let asked: usize = [Who::Daemon, Who::Kubelets, Who::Heartbeats]
        .into_iter()
        .map(|who| requests.sum(who))
        .sum();
    let servers = api_server.cpu_seconds + etcd.cpu_seconds;
    let all = servers + daemon.cpu_seconds + kubelets.cpu_seconds;
    let cores = cores() as f64;
    let floor = servers / cores;
    format!(
        "API server and etcd used {:.1} ms of CPU a request, {floor:.1} s on {cores} cores: the \
         wall time is {:.1} times that; together the four kept the cores busy for {:.0} % of it",
        servers * 1000.0 / asked.max(1) as f64,
        wall_seconds / floor.max(0.01),
        100.0 * all / (cores * wall_seconds),
    )
}

fn writes_per_node(row: &Row, measured: &Measurement) -> f64 {
    measured.requests.writes() as f64 / row.nodes.max(1) as f64
}

fn cpu(usage: Usage) -> String {
    format!("{:.1} s of CPU", usage.cpu_seconds)
}

fn memory(usage: Usage) -> String {
    format!("{:.0} MiB", usage.peak_mebibytes)
}

fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}
