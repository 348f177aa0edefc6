package io.bellerophon.bench.quarkus;

import io.fabric8.kubernetes.api.model.HasMetadata;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.javaoperatorsdk.operator.api.reconciler.Context;
import io.javaoperatorsdk.operator.processing.dependent.kubernetes.CRUDKubernetesDependentResource;
import io.javaoperatorsdk.operator.processing.event.ResourceID;
import io.javaoperatorsdk.operator.processing.event.source.SecondaryToPrimaryMapper;
import java.net.HttpURLConnection;
import java.util.Set;

/**
 * A child of the same name as its owner: created, matched and repaired by Server-Side Apply, deleted by the
 * garbage collector.
 */
abstract class ChildResource<R extends HasMetadata> extends CRUDKubernetesDependentResource<R, BellerophonSimple>
    implements SecondaryToPrimaryMapper<R> {

  ChildResource(Class<R> type) {
    super(type);
  }

  /** Spares the SDK the computation of the whole desired state to find the child. */
  @Override
  protected ResourceID targetSecondaryResourceID(BellerophonSimple hero, Context<BellerophonSimple> context) {
    return ResourceID.fromResource(hero);
  }

  /**
   * The informer sees only what carries our labels. What somebody else controls is not ours; what nobody controls
   * is a child of ours that lost its owner reference, which the mapper by owner references would miss.
   */
  @Override
  public Set<ResourceID> toPrimaryResourceIDs(R child) {
    boolean foreign = Metadata.controllerOf(child)
        .filter(owner -> !owner.getKind().equals("BellerophonSimple")
            || !owner.getName().equals(child.getMetadata().getName()))
        .isPresent();
    return foreign ? Set.of() : Set.of(ResourceID.fromResource(child));
  }

  /**
   * A creation that the API server refuses because there is such an object means that it lacks our labels. If it is
   * ours it has lost them and gets them back; if not it is left alone.
   */
  @Override
  public R create(R desired, BellerophonSimple hero, Context<BellerophonSimple> context) {
    try {
      return super.create(desired, hero, context);
    } catch (KubernetesClientException e) {
      if (e.getCode() != HttpURLConnection.HTTP_CONFLICT) {
        throw e;
      }
      R live = context.getClient().resource(desired).get();
      if (live == null || live.isMarkedForDeletion()) {
        throw e; // It is about to be created again: a retry does that.
      }
      if (Metadata.controllerOf(live).filter(o -> o.getUid().equals(hero.getMetadata().getUid())).isEmpty()) {
        throw new NameTakenException(live);
      }
      desired.getMetadata().setResourceVersion(live.getMetadata().getResourceVersion());
      return super.update(live, desired, hero, context);
    }
  }
}
