//! The reconciler, its context and its error policy.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ConfigMap, Service},
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        controller::Action,
        reflector::{ObjectRef, store::WriterDropped},
        watcher::DefaultBackoff,
    },
};
use serde_json::json;
use tokio::time::Instant;
use tracing::warn;

use crate::{
    cache::{Cache, Cached},
    children::{Ensured, FIELD_MANAGER, Trouble, ensure_all},
    hero::{BellerophonSimple, BellerophonSimpleStatus},
    metrics::Metrics,
    pace::{PROGRESS_EVERY, Pace},
    patch,
    status::status_of,
};

/// The requeue interval after a conflict, in case the event of the other change does not arrive.
const OUTDATED_WAIT: Duration = Duration::from_secs(1);

/// The requeue interval for a condition that may end without an event.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The requeue interval after a success, for missed events, as kube's documentation recommends.
const RESYNC: Duration = Duration::from_secs(3600);

/// The longest delay of [`DefaultBackoff`].
const MAX_BACKOFF: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error("making a patch: {0}")]
    Serialization(#[from] serde_json::Error),
    #[error("a watch ended before its first list: {0}")]
    NeverReady(#[from] WriterDropped),
}

impl Error {
    pub fn metric_label(&self) -> &'static str {
        match self {
            Self::Kube(_) => "kube",
            Self::Serialization(_) => "serialization",
            Self::NeverReady(_) => "never_ready",
        }
    }
}

pub struct Context {
    pub client: Client,
    pub heroes: Arc<Cache<BellerophonSimple>>,
    pub configs: Arc<Cache<ConfigMap>>,
    pub services: Arc<Cache<Service>>,
    pub servers: Arc<Cache<StatefulSet>>,
    pub metrics: Metrics,
    pub progress: Arc<Progress>,
}

impl Cached for BellerophonSimple {
    fn prune(&mut self) {
        self.metadata.managed_fields = None;
        self.metadata.annotations = None;
    }
}

/// The state of objects that is kept between two reconciles.
#[derive(Default)]
pub struct Progress {
    known: Mutex<HashMap<ObjectRef<BellerophonSimple>, Remembered>>,
    /// None if each status is held back equally long.
    pace: Option<Pace>,
}

/// An unfinished rollout.
struct Rollout {
    began: Instant,
    /// When it began, or when its status was last written.
    since: Instant,
    /// The `StatefulSet` controller has seen it.
    followed: bool,
}

#[derive(Default)]
struct Remembered {
    unsettled: Option<Rollout>,
    /// The backoff of consecutive failures.
    backoff: Option<DefaultBackoff>,
}

impl Progress {
    /// Drops the state of a deleted object.
    pub fn forget(&self, hero: &BellerophonSimple) {
        self.lock().remove(&ObjectRef::from_obj(hero));
    }

    /// Holds back the first status of a new object for longer while the API server is the bottleneck.
    pub fn paced() -> Self {
        Self {
            pace: Some(Pace::default()),
            ..Self::default()
        }
    }

    /// Returns how long the status of an unfinished rollout is still held back. It is zero for a
    /// settled status.
    fn hold(
        &self,
        key: &ObjectRef<BellerophonSimple>,
        hero: &BellerophonSimple,
        ensured: &Ensured,
        settled: bool,
    ) -> Duration {
        let (mut known, now) = (self.lock(), Instant::now());
        if settled {
            if let Some(rollout) = known
                .get_mut(key)
                .and_then(|remembered| remembered.unsettled.take())
            {
                self.follow(&rollout, ensured, now);
            }
            return Duration::ZERO;
        }
        let rollout = known
            .entry(key.clone())
            .or_default()
            .unsettled
            .get_or_insert(Rollout {
                began: now,
                since: now,
                followed: false,
            });
        rollout.followed = self.follow(rollout, ensured, now);
        let every = match &self.pace {
            Some(pace) if is_new(hero) => pace.held(now),
            _ => PROGRESS_EVERY,
        };
        let left = every.saturating_sub(now - rollout.since);
        if left.is_zero() {
            rollout.since = now;
        }
        left
    }

    /// Reports whether the `StatefulSet` controller has seen a rollout, and records the first time.
    fn follow(&self, rollout: &Rollout, ensured: &Ensured, now: Instant) -> bool {
        let follows = rollout.followed || ensured.servers.as_deref().is_some_and(is_observed);
        if let Some(pace) = &self.pace
            && follows
            && !rollout.followed
        {
            pace.took(now - rollout.began, now);
        }
        follows
    }

    /// Resets the backoff of an object.
    fn succeed(&self, key: &ObjectRef<BellerophonSimple>) {
        let mut known = self.lock();
        if let Some(remembered) = known.get_mut(key) {
            remembered.backoff = None;
            if remembered.unsettled.is_none() {
                known.remove(key);
            }
        }
    }

    fn next_backoff(&self, key: ObjectRef<BellerophonSimple>) -> Duration {
        let mut known = self.lock();
        let backoff = known.entry(key).or_default().backoff.get_or_insert_default();
        backoff.next().unwrap_or(MAX_BACKOFF)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectRef<BellerophonSimple>, Remembered>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reports whether the status shows no reconcile of an object yet.
fn is_new(hero: &BellerophonSimple) -> bool {
    hero.status
        .as_ref()
        .is_none_or(|status| status.observed_generation.is_none())
}

fn is_observed(servers: &StatefulSet) -> bool {
    let seen = servers
        .status
        .as_ref()
        .and_then(|status| status.observed_generation);
    servers.metadata.generation.is_some() && seen >= servers.metadata.generation
}

/// Creates and repairs the children of an object, and then writes its status.
pub async fn reconcile(hero: Arc<BellerophonSimple>, ctx: Arc<Context>) -> Result<Action, Error> {
    // The controller waits only for its main store.
    tokio::try_join!(ctx.configs.ready(), ctx.services.ready(), ctx.servers.ready())?;
    let _timer = ctx.metrics.reconcile.count_and_measure();
    let key = ObjectRef::from_obj(&*hero);
    let hero = ctx.heroes.get(&key).unwrap_or(hero);
    if hero.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change()); // The garbage collector deletes the children.
    }
    let ensured = ensure_all(&ctx, &hero).await;
    let (status, settled) = status_of(&hero, &ensured);
    let hold = ctx.progress.hold(&key, &hero, &ensured, settled);
    let mut after = report(&ctx, &key, &hero, status, hold).await?;
    for trouble in ensured.troubles {
        match trouble {
            Trouble::Failed(error) => return Err(error),
            Trouble::Outdated => after = after.min(OUTDATED_WAIT),
            Trouble::Taken(_) | Trouble::Leaving => after = after.min(LOOK_AGAIN),
            Trouble::Terminating => {}
        }
    }
    ctx.progress.succeed(&key);
    Ok(Action::requeue(after))
}

/// Writes the status if it differs and is due. Returns when to requeue.
async fn report(
    ctx: &Context,
    key: &ObjectRef<BellerophonSimple>,
    hero: &BellerophonSimple,
    status: BellerophonSimpleStatus,
    hold: Duration,
) -> Result<Duration, Error> {
    let seen = hero.status.clone().unwrap_or_default();
    if status == seen {
        return Ok(RESYNC);
    }
    if !hold.is_zero() {
        return Ok(hold);
    }
    let patch = Patch::Merge(patch::between(
        &json!({ "status": seen }),
        &json!({ "status": status }),
    )?);
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    };
    let api: Api<BellerophonSimple> =
        Api::namespaced(ctx.client.clone(), &hero.namespace().unwrap_or_default());
    let name = hero.name_any();
    let request = api.patch_status(&name, &params, &patch);
    match ctx.heroes.write(key.clone(), request).await {
        Ok(_) => Ok(RESYNC),
        // The object was deleted. Its deletion is an event of the watch.
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(RESYNC),
        Err(error) => Err(error.into()),
    }
}

/// Requeues after a delay that grows with the number of consecutive failures.
pub fn error_policy(hero: Arc<BellerophonSimple>, error: &Error, ctx: Arc<Context>) -> Action {
    let key = ObjectRef::from_obj(&*hero);
    warn!(hero = %key, %error, "reconcile failed");
    ctx.metrics.reconcile.set_failure(error);
    Action::requeue(ctx.progress.next_backoff(key))
}
