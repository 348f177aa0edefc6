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
 * The workflow brings the three children to what is wanted, in parallel; this then brings the status to what is
 * observed. Both write nothing where nothing differs.
 */
@Workflow(dependents = {
  @Dependent(type = ConfigMapChild.class),
  @Dependent(type = ServiceChild.class),
  @Dependent(type = StatefulSetChild.class)
})
@ControllerConfiguration(name = SimpleReconciler.NAME)
public class SimpleReconciler implements Reconciler<BellerophonSimple> {

  static final String NAME = "bellerophonsimple";

  /** A failure is told after so many retries: most are over by then. */
  private static final int RETRIES_BEFORE_TELLING = 3;

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
    if (retries < RETRIES_BEFORE_TELLING) {
      return ErrorStatusUpdateControl.defaultErrorProcessing();
    }
    NameTakenException taken = nameTaken(error);
    Observation seen = observe(hero, context);
    SimpleStatus status = taken == null
        ? seen.failed("WriteRefused", "a child could not be written; the log of the operator says why")
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
   * What is applied: the status alone, on condition of the version that it was made from. Without the condition the
   * SDK, which filters the events of its own writes, would take a change of the spec that comes at the same time for
   * its own.
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
