package io.bellerophon.bench.quarkus;

import io.javaoperatorsdk.operator.api.monitoring.Metrics;
import io.javaoperatorsdk.operator.monitoring.micrometer.MicrometerMetricsV2;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.config.MeterFilter;
import io.micrometer.prometheus.PrometheusMeterRegistry;
import jakarta.enterprise.inject.Produces;
import jakarta.inject.Singleton;

/** Produces the metrics of the SDK. */
class OperatorMetrics {

  /**
   * Returns the recommended metrics. This release of the extension provides the same ones too late, so there would be
   * none. The registry is the one of Prometheus. The composite registry counts nothing before the application has
   * started, and the operator has received many events before that.
   */
  @Produces
  @Singleton
  Metrics metrics(PrometheusMeterRegistry registry) {
    registry.config().meterFilter(new SameLabels());
    return MicrometerMetricsV2.newBuilder(registry).build();
  }

  /**
   * Adds an empty action to events without one. Prometheus requires all series of a name to have the same labels, and
   * the SDK counts events with and without an action.
   */
  private static class SameLabels implements MeterFilter {

    @Override
    public Meter.Id map(Meter.Id id) {
      boolean lacks = id.getName().equals("events.received") && id.getTag("action") == null;
      return lacks ? id.withTag(Tag.of("action", "")) : id;
    }
  }
}
