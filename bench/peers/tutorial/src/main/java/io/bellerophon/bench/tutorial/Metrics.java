package io.bellerophon.bench.tutorial;

import io.prometheus.metrics.core.metrics.Counter;
import io.prometheus.metrics.core.metrics.Gauge;
import io.prometheus.metrics.core.metrics.Histogram;
import io.prometheus.metrics.exporter.httpserver.HTTPServer;
import io.prometheus.metrics.instrumentation.jvm.JvmMetrics;
import java.io.IOException;

/** The metrics of the operator. */
final class Metrics {

  static final Counter EVENTS = Counter.builder()
      .name("tutorial_events_total").help("Events of watches.").labelNames("kind", "action").register();
  static final Gauge CACHED = Gauge.builder()
      .name("tutorial_cached_objects").help("Objects in the cache.").labelNames("kind").register();
  static final Gauge QUEUED = Gauge.builder()
      .name("tutorial_callbacks_queued").help("Callbacks waiting for the thread, with scheduled ones.").register();
  static final Histogram CALLBACK = Histogram.builder()
      .name("tutorial_callback_seconds").help("Duration of callbacks.").classicOnly()
      .classicUpperBounds(.001, .005, .01, .05, .1, .25, .5, 1, 2, 5, 10, 30).register();
  static final Counter ERRORS = Counter.builder()
      .name("tutorial_callback_errors_total").help("Callbacks that failed and are retried.").register();
  static final Counter WRITES = Counter.builder()
      .name("tutorial_writes_total").help("Writes that the API server accepted.").labelNames("kind").register();

  private Metrics() {}

  /** Serves the metrics at http://127.0.0.1:port/metrics. */
  static void serve(int port) throws IOException {
    JvmMetrics.builder().register();
    HTTPServer.builder().hostname("127.0.0.1").port(port).buildAndStart();
  }
}
