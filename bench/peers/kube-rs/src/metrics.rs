//! The metrics of controller-rs, kube-rs's example controller.

use std::{fmt, sync::Arc};

use axum::{Router, http::header::CONTENT_TYPE, routing::get};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};
use tokio::{net::TcpListener, time::Instant};

use crate::reconcile::Error;

#[derive(Clone)]
pub struct Metrics {
    pub reconcile: ReconcileMetrics,
    registry: Arc<Registry>,
}

#[derive(Clone)]
pub struct ReconcileMetrics {
    runs: Counter,
    failures: Family<ErrorLabels, Counter>,
    duration: Histogram,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ErrorLabels {
    error: &'static str,
}

impl Metrics {
    pub fn new() -> Self {
        let reconcile = ReconcileMetrics {
            runs: Counter::default(),
            failures: Family::default(),
            duration: Histogram::new([0.01, 0.1, 0.25, 0.5, 1., 5., 15., 60.]),
        };
        let mut registry = Registry::with_prefix("shero_ctrl_reconcile");
        registry.register_with_unit(
            "duration",
            "reconcile duration",
            Unit::Seconds,
            reconcile.duration.clone(),
        );
        registry.register("failures", "reconciliation errors", reconcile.failures.clone());
        registry.register("runs", "reconciliations", reconcile.runs.clone());
        Self {
            reconcile,
            registry: Arc::new(registry),
        }
    }

    /// Serves GET /metrics until the process ends.
    pub async fn serve(self, listener: TcpListener) -> std::io::Result<()> {
        let metrics = get(async move || {
            let content = [(
                CONTENT_TYPE,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            )];
            self.text()
                .map(|text| (content, text))
                .map_err(|error| error.to_string())
        });
        axum::serve(listener, Router::new().route("/metrics", metrics)).await
    }

    fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl ReconcileMetrics {
    pub fn set_failure(&self, error: &Error) {
        let error = error.metric_label();
        self.failures.get_or_create(&ErrorLabels { error }).inc();
    }

    pub fn count_and_measure(&self) -> ReconcileMeasurer {
        self.runs.inc();
        ReconcileMeasurer {
            start: Instant::now(),
            metric: self.duration.clone(),
        }
    }
}

/// Measures the duration of a reconcile until it is dropped.
pub struct ReconcileMeasurer {
    start: Instant,
    metric: Histogram,
}

impl Drop for ReconcileMeasurer {
    fn drop(&mut self) {
        self.metric.observe(self.start.elapsed().as_secs_f64());
    }
}
