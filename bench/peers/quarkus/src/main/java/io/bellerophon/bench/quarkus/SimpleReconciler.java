package io.bellerophon.bench.quarkus;

import io.fabric8.kubernetes.api.model.ObjectMetaBuilder;
import io.fabric8.kubernetes.api.model.apps.StatefulSet;
import io.javaoperatorsdk.operator.api.reconciler.Context;
import io.javaoperatorsdk.operator.api.reconciler.ControllerConfiguration;
import io.javaoperatorsdk.operator.api.reconciler.ErrorStatusUpdateControl;
import io.javaoperatorsdk.operator.api.reconciler.Reconciler;
import io.javaoperatorsdk.operator.api.reconciler.RetryInfo;
import io.javaoperatorsdk.operator.api.reconciler.UpdateControl;
import io.javaoperatorsdk.operator.api.reconciler.Workflow;
import io.javaoperatorsdk.operator.api.reconciler.dependent.Dependent;
import io.javaoperatorsdk.operator.AggregatedOperatorException;
import java.time.Duration;

/**
 * Reconciles an object. The workflow creates and repairs the three children in parallel, and then this class writes the
 * status. Neither writes if nothing differs.
 */
@Workflow(dependents = {
  @Dependent(type = ConfigMapChild.class),
  @Dependent(type = ServiceChild.class),
  @Dependent(type = StatefulSetChild.class)
})
@ControllerConfiguration(name = SimpleReconciler.NAME)
public class SimpleReconciler implements Reconciler<BellerophonSimple> {

  static final String NAME = "bellerophonsimple";

  /** How many retries precede a failure in the status. Most failures are over before that. */
  private static final int RETRIES_BEFORE_STATUS = 3;

  private final ProgressPace pace;

  SimpleReconciler(ProgressPace pace) {
    this.pace = pace;
  }

  @Override
  public UpdateControl<BellerophonSimple> reconcile(BellerophonSimple hero, Context<BellerophonSimple> context) {
    Observation seen = observe(hero, context);
    boolean finished = seen.finished();
    if (finished) {
      pace.finished(hero);
    }
    SimpleStatus status = seen.status();
    if (status.equals(hero.getStatus())) {
      return UpdateControl.noUpdate();
    }
    if (!finished) {
      Duration wait = pace.waitFor(hero);
      if (!wait.isZero()) {
        return UpdateControl.<BellerophonSimple>noUpdate().rescheduleAfter(wait);
      }
    }
    return UpdateControl.patchStatus(carrying(status, hero));
  }

  @Override
  public ErrorStatusUpdateControl<BellerophonSimple> updateErrorStatus(
      BellerophonSimple hero, Context<BellerophonSimple> context, Exception error) {
    int retries = context.getRetryInfo().map(RetryInfo::getAttemptCount).orElse(0);
    if (retries < RETRIES_BEFORE_STATUS) {
      return ErrorStatusUpdateControl.defaultErrorProcessing();
    }
    NameTakenException taken = nameTaken(error);
    Observation seen = observe(hero, context);
    SimpleStatus status = taken == null
        ? seen.failed("WriteRefused", "a child could not be written; see the log of the operator")
        : seen.failed("NameConflict", taken.getMessage());
    if (status.equals(hero.getStatus())) {
      return ErrorStatusUpdateControl.defaultErrorProcessing();
    }
    return ErrorStatusUpdateControl.patchStatus(carrying(status, hero));
  }

  private static Observation observe(BellerophonSimple hero, Context<BellerophonSimple> context) {
    return new Observation(hero, context.getSecondaryResource(StatefulSet.class).orElse(null));
  }

  private static NameTakenException nameTaken(Throwable error) {
    if (error instanceof NameTakenException taken) {
      return taken;
    }
    if (error instanceof AggregatedOperatorException all) {
      return all.getAggregatedExceptions().values().stream()
          .map(SimpleReconciler::nameTaken)
          .filter(found -> found != null)
          .findFirst()
          .orElse(null);
    }
    return error.getCause() == null ? null : nameTaken(error.getCause());
  }

  /**
   * Returns the object to apply: only the status, with the resource version from which it was computed as a
   * precondition. The SDK filters the events of its own writes. Without the precondition it would take a concurrent
   * change of the spec for its own write.
   */
  private static BellerophonSimple carrying(SimpleStatus status, BellerophonSimple hero) {
    BellerophonSimple applied = new BellerophonSimple();
    applied.setMetadata(new ObjectMetaBuilder()
        .withName(hero.getMetadata().getName())
        .withNamespace(hero.getMetadata().getNamespace())
        .withResourceVersion(hero.getMetadata().getResourceVersion())
        .build());
    applied.setStatus(status);
    return applied;
  }
}
