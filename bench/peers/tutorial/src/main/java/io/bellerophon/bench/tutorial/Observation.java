package io.bellerophon.bench.tutorial;

import io.fabric8.kubernetes.api.model.Condition;
import io.fabric8.kubernetes.api.model.ConditionBuilder;
import io.fabric8.kubernetes.api.model.apps.StatefulSet;
import io.fabric8.kubernetes.api.model.apps.StatefulSetStatus;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Objects;

/** The observed state of an object and its StatefulSet, and the status that follows from it. */
record Observation(BellerophonSimple hero, StatefulSet servers) {

  /** Reports whether the StatefulSet has finished the rollout of its current generation. */
  boolean finished() {
    if (servers == null || servers.getStatus() == null) {
      return false;
    }
    StatefulSetStatus status = servers.getStatus();
    int want = hero.getSpec().replicas();
    return status.getObservedGeneration() != null
        && status.getObservedGeneration() >= servers.getMetadata().getGeneration()
        && number(status.getReplicas()) == want
        && number(status.getReadyReplicas()) == want
        && number(status.getUpdatedReplicas()) == want
        && (want == 0 || Objects.equals(status.getCurrentRevision(), status.getUpdateRevision()));
  }

  SimpleStatus status() {
    if (!finished()) {
      return with("False", "ReplicasNotReady", "True", "RollingOut", "False", "RollingOut", "");
    }
    String reason = hero.getSpec().replicas() == 0 ? "ScaledToZero" : "AllReplicasReady";
    return with("True", reason, "False", reason, "False", reason, "");
  }

  /** Returns the status while the children cannot be written. */
  SimpleStatus failed(String reason, String message) {
    return with("False", "ReplicasNotReady", "False", reason, "True", reason, message);
  }

  private SimpleStatus with(
      String ready, String readyReason, String progressing, String progressReason, String degraded,
      String degradedReason, String trouble) {
    String count = "%d of %d servers are ready".formatted(readyReplicas(), hero.getSpec().replicas());
    return new SimpleStatus(
        hero.getMetadata().getGeneration(),
        servers == null || servers.getStatus() == null ? 0 : number(servers.getStatus().getReplicas()),
        readyReplicas(),
        "app.kubernetes.io/instance=" + hero.getMetadata().getName() + ",app.kubernetes.io/name=bellerophon-simple",
        List.of(
            condition("Ready", ready, readyReason, count),
            condition("Progressing", progressing, progressReason, ""),
            condition("Degraded", degraded, degradedReason, trouble)));
  }

  private int readyReplicas() {
    return servers == null || servers.getStatus() == null ? 0 : number(servers.getStatus().getReadyReplicas());
  }

  /** Returns a condition. Its transition time changes only with its status. */
  private Condition condition(String type, String status, String reason, String message) {
    String since = hero.getStatus() == null || hero.getStatus().conditions() == null ? null
        : hero.getStatus().conditions().stream()
            .filter(held -> held.getType().equals(type) && held.getStatus().equals(status))
            .map(Condition::getLastTransitionTime)
            .findFirst()
            .orElse(null);
    return new ConditionBuilder()
        .withType(type)
        .withStatus(status)
        .withReason(reason)
        .withMessage(message)
        .withObservedGeneration(hero.getMetadata().getGeneration())
        .withLastTransitionTime(since != null ? since : Instant.now().truncatedTo(ChronoUnit.SECONDS).toString())
        .build();
  }

  private static int number(Integer of) {
    return of == null ? 0 : of;
  }
}
