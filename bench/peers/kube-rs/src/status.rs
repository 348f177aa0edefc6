//! The desired status of an object.

use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::StatefulSet,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};

use crate::{
    children::{Ensured, Trouble},
    desired::selector_text,
    hero::{BellerophonSimple, BellerophonSimpleStatus},
    reconcile::Error,
};

/// The state from which the three conditions follow.
struct Verdict {
    finished: bool,
    /// Why the rollout does not proceed by itself: a reason and a message.
    degraded: Option<(&'static str, String)>,
}

/// Returns the status that an object should have, and whether it stays the same without another
/// event.
pub fn status_of(hero: &BellerophonSimple, ensured: &Ensured) -> (BellerophonSimpleStatus, bool) {
    let want = hero.spec.replicas;
    let servers = ensured.servers.as_deref();
    let observed = servers.and_then(|servers| servers.status.as_ref());
    let ready_replicas = observed.and_then(|status| status.ready_replicas).unwrap_or(0);
    let mut status = BellerophonSimpleStatus {
        observed_generation: hero.metadata.generation,
        replicas: Some(observed.map_or(0, |status| status.replicas)),
        ready_replicas: Some(ready_replicas),
        selector: Some(selector_text(hero)),
        conditions: hero
            .status
            .as_ref()
            .map(|status| status.conditions.clone())
            .unwrap_or_default(),
    };
    let degraded = ensured.troubles.iter().find_map(degradation);
    let verdict = Verdict {
        finished: degraded.is_none() && servers.is_some_and(|servers| is_finished(servers, want)),
        degraded,
    };
    let count = format!("{ready_replicas} of {want} servers are ready");
    let conditions = match &verdict {
        Verdict {
            degraded: Some((reason, message)),
            ..
        } => [
            ("Ready", false, "ReplicasNotReady", count),
            ("Progressing", false, *reason, String::new()),
            ("Degraded", true, *reason, message.clone()),
        ],
        Verdict { finished: true, .. } => {
            let reason = if want == 0 {
                "ScaledToZero"
            } else {
                "AllReplicasReady"
            };
            [
                ("Ready", true, reason, count),
                ("Progressing", false, reason, String::new()),
                ("Degraded", false, reason, String::new()),
            ]
        }
        _ => [
            ("Ready", false, "ReplicasNotReady", count.clone()),
            ("Progressing", true, "RollingOut", count),
            ("Degraded", false, "RollingOut", String::new()),
        ],
    };
    for (kind, is, reason, message) in conditions {
        set_condition(
            &mut status.conditions,
            Condition {
                type_: kind.into(),
                status: if is { "True" } else { "False" }.into(),
                reason: reason.into(),
                message,
                observed_generation: hero.metadata.generation,
                last_transition_time: Time(Timestamp::now()),
            },
        );
    }
    (status, verdict.finished || verdict.degraded.is_some())
}

/// Sets a condition. Its transition time changes only with its status.
fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition) {
    match conditions.iter_mut().find(|held| held.type_ == condition.type_) {
        Some(held) => {
            if held.status == condition.status {
                condition.last_transition_time = held.last_transition_time.clone();
            }
            *held = condition;
        }
        None => conditions.push(condition),
    }
}

/// Reports whether the StatefulSet has finished the rollout of its current generation.
fn is_finished(servers: &StatefulSet, want: i32) -> bool {
    let Some(status) = &servers.status else {
        return false;
    };
    status.observed_generation >= servers.metadata.generation
        && status.replicas == want
        && status.ready_replicas.unwrap_or(0) == want
        && status.updated_replicas.unwrap_or(0) == want
        && (want == 0 || status.current_revision == status.update_revision)
}

/// Returns the reason and message of a trouble that does not end by itself.
fn degradation(trouble: &Trouble) -> Option<(&'static str, String)> {
    match trouble {
        Trouble::Taken(child) => Some((
            "NameConflict",
            format!("{child} belongs to another owner; rename one of the two"),
        )),
        Trouble::Failed(Error::Kube(kube::Error::Api(status)))
            if status.is_invalid() || status.is_forbidden() || status.code == 400 =>
        {
            Some((
                "WriteRefused",
                status.message.lines().next().unwrap_or_default().into(),
            ))
        }
        _ => None,
    }
}
