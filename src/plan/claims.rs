//! Hands off: other operators, and people, who ask that nothing be started on a node.
//!
//! In: the claims and the hold of a node. Out: why nothing begins there, and what becomes of our
//! cordon. Work that runs is never cut short: stopping in the middle helps nobody.

use crate::model::{AtRelease, Node, Reason, Verdict};

/// Returns who keeps us from starting anything on the node.
pub(crate) fn hands_off(node: &Node) -> Option<Verdict> {
    if let Some(claim) = node.claims.first() {
        let (by, mark) = (claim.by.clone(), claim.mark.clone());
        return Some(Verdict::wait(Reason::HandsOff { by, mark }));
    }
    held_by_hand(node)
}

/// Returns that a person keeps us from starting anything on the node.
pub(crate) fn held_by_hand(node: &Node) -> Option<Verdict> {
    let why = node.hold.as_ref()?;
    let why = if why.trim().is_empty() { "no reason is given".to_owned() } else { why.clone() };
    Some(Verdict::blocked(Reason::HeldByHand { why }))
}

/// Returns the claim that a release waits for.
pub(crate) fn delays_release(node: &Node) -> Option<Verdict> {
    let claim = node.claims.iter().find(|claim| claim.at_release == AtRelease::Waits)?;
    let (by, mark) = (claim.by.clone(), claim.mark.clone());
    Some(Verdict::wait(Reason::HandsOff { by, mark }))
}

/// Returns whether the node stays cordoned when we let it go, whoever cordoned it.
///
/// A second cordon on a cordoned node leaves no trace in the node's spec: the marks of other
/// operators and the hold of a person are all there is to tell (neighbours T1, T13).
pub(crate) fn keeps_cordon(node: &Node) -> bool {
    !node.claims.is_empty() || node.hold.is_some()
}
