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
 * A child with the same name as its owner. It is created, matched and repaired by server-side apply, and deleted by
 * the garbage collector.
 */
abstract class ChildResource<R extends HasMetadata> extends CRUDKubernetesDependentResource<R, BellerophonSimple>
    implements SecondaryToPrimaryMapper<R> {

  ChildResource(Class<R> type) {
    super(type);
  }

  /** Returns the ID of the child, so that the SDK does not compute the whole desired state to find it. */
  @Override
  protected ResourceID targetSecondaryResourceID(BellerophonSimple hero, Context<BellerophonSimple> context) {
    return ResourceID.fromResource(hero);
  }

  /**
   * Maps a child to its owner by name. The informer sees only objects with the operator's labels. An object with
   * another controller is not mapped. An object without a controller is a child that lost its owner reference, which
   * the mapper by owner references would miss.
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
   * Creates the child. If the API server refuses because the object exists, that object lacks the operator's labels.
   * If it is the owner's child, it has lost them and gets them back. Otherwise it is left alone.
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
        throw e; // The retry creates the child again.
      }
      if (Metadata.controllerOf(live).filter(o -> o.getUid().equals(hero.getMetadata().getUid())).isEmpty()) {
        throw new NameTakenException(live);
      }
      desired.getMetadata().setResourceVersion(live.getMetadata().getResourceVersion());
      return super.update(live, desired, hero, context);
    }
  }
}
