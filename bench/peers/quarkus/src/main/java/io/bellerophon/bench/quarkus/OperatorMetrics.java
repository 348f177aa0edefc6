package io.bellerophon.bench.quarkus;

import io.javaoperatorsdk.operator.api.monitoring.Metrics;
import io.javaoperatorsdk.operator.monitoring.micrometer.MicrometerMetricsV2;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.config.MeterFilter;
import io.micrometer.prometheus.PrometheusMeterRegistry;
import jakarta.enterprise.inject.Produces;
import jakarta.inject.Singleton;

/** The metrics of the SDK. */
class OperatorMetrics {

  /**
   * The extension provides the same, but this release of it too late, so that there would be none. The registry is
   * the one of Prometheus, not the composite one, which counts nothing before the application has started: the
   * operator has seen many events by then.
   */
  @Produces
  @Singleton
  Metrics metrics(PrometheusMeterRegistry registry) {
    registry.config().meterFilter(new SameLabels());
    return MicrometerMetricsV2.newBuilder(registry).build();
  }

  /** The SDK counts events with and without an action. Prometheus wants all of one name to have the same labels. */
  private static class SameLabels implements MeterFilter {

    @Override
    public Meter.Id map(Meter.Id id) {
      boolean lacks = id.getName().equals("events.received") && id.getTag("action") == null;
      return lacks ? id.withTag(Tag.of("action", "")) : id;
    }
  }
}
