//! The contender of kube-rs: the operator of bench/contract.md, written as the documentation of
//! kube-rs recommends.

mod adjust;
mod cache;
mod children;
mod connection;
mod desired;
mod hero;
mod metrics;
mod pace;
mod patch;
mod reconcile;
mod status;

use std::{env, error::Error, io, sync::Arc, time::Duration};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ConfigMap, Service},
};
use kube::{
    Client, Resource, ResourceExt,
    runtime::{
        Config, Controller, PredicateConfig, WatchStreamExt, controller, predicates,
        reflector::ObjectRef,
        utils::Backoff,
        watcher::{self, Event},
    },
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    time::sleep,
};
use tracing::{debug, warn};
use tracing_subscriber::EnvFilter;

use crate::{
    cache::Cache,
    hero::BellerophonSimple,
    metrics::Metrics,
    reconcile::{Context, Progress, error_policy, reconcile},
};

/// The number of concurrent reconciles with `--equal`, as many as Bellerophon has by default.
const EQUAL_WORKERS: u16 = 32;

/// How long running reconciles may continue after a signal.
const GRACE: Duration = Duration::from_secs(8);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .compact()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();

    let metrics = Metrics::new();
    if let Some(port) = number("METRICS_PORT")? {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        tokio::spawn(metrics.clone().serve(listener));
    }
    let equal = env::args().any(|argument| argument == "--equal");
    let mut config = Config::default();
    if let Some(workers) = number("WORKERS")?.or(equal.then_some(EQUAL_WORKERS)) {
        config = config.concurrency(workers);
    }
    let client = if equal {
        connection::connect(&kube::Config::infer().await?)?
    } else {
        Client::try_default().await?
    };
    let progress = if equal {
        Progress::paced()
    } else {
        Progress::default()
    };
    tokio::select! {
        () = run(client, config, metrics, progress) => {}
        result = overdue() => result?,
    }
    Ok(())
}

/// Runs the controller until a signal arrives and its running reconciles have ended.
async fn run(client: Client, config: Config, metrics: Metrics, progress: Progress) {
    let main = watcher::Config::default();
    let labelled = main.clone().labels(desired::CHILDREN);
    let (heroes, hero_events) = Cache::<BellerophonSimple>::watch(client.clone(), main);
    let (configs, config_events) = Cache::<ConfigMap>::watch(client.clone(), labelled.clone());
    let (services, service_events) = Cache::<Service>::watch(client.clone(), labelled.clone());
    let (servers, server_events) = Cache::<StatefulSet>::watch(client.clone(), labelled);

    let progress = Arc::new(progress);
    let remembered = progress.clone();
    let hero_changes = hero_events
        .inspect_ok(move |event| {
            if let Event::Delete(hero) = event {
                remembered.forget(hero);
            }
        })
        .applied_objects()
        .predicate_filter(predicates::generation, PredicateConfig::default());

    Controller::for_stream(hero_changes, heroes.store())
        .watches_stream(config_events.touched_objects(), hero_of)
        .watches_stream(service_events.touched_objects(), hero_of)
        .watches_stream(server_events.touched_objects(), hero_of)
        .with_config(config)
        .trigger_backoff(NoBackoff)
        .shutdown_on_signal()
        .run(
            reconcile,
            error_policy,
            Arc::new(Context {
                client,
                heroes,
                configs,
                services,
                servers,
                metrics,
                progress,
            }),
        )
        .for_each(|result| async {
            match result {
                // ObjectNotFound is an event of a child whose owner is gone. error_policy has logged
                // ReconcilerFailed.
                Err(
                    error @ (controller::Error::ObjectNotFound(_) | controller::Error::ReconcilerFailed(..)),
                ) => {
                    debug!(%error);
                }
                Err(error) => warn!(%error),
                Ok(_) => {}
            }
        })
        .await;
}

/// Disables the controller's backoff of all triggers. Each watch has its own backoff. The
/// controller's default would delay the events of all watches after an error of one. When four
/// watches end at the same time, that makes half a minute.
struct NoBackoff;

impl Iterator for NoBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::ZERO)
    }
}

impl Backoff for NoBackoff {
    fn reset(&mut self) {}
}

/// Maps a child to its owner, which has the same name. It does not use the owner reference, because
/// losing that reference must trigger a reconcile, too.
fn hero_of<K: Resource<DynamicType = ()>>(child: K) -> Option<ObjectRef<BellerophonSimple>> {
    let namespace = child.namespace()?;
    Some(ObjectRef::new(&child.name_any()).within(&namespace))
}

/// Returns when `GRACE` has passed after a signal.
async fn overdue() -> io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    sleep(GRACE).await;
    warn!("reconciles did not end within the grace period; they are cancelled");
    Ok(())
}

/// Reads a number from an environment variable, if it is set.
fn number(name: &str) -> Result<Option<u16>, String> {
    match env::var(name) {
        Ok(text) => text
            .parse()
            .map(Some)
            .map_err(|error| format!("{name} is {text:?}: {error}; give a number from 0 to 65535")),
        Err(_) => Ok(None),
    }
}
