package io.bellerophon.bench.quarkus;

import io.fabric8.kubernetes.api.model.HasMetadata;
import io.fabric8.kubernetes.api.model.ObjectMeta;
import io.fabric8.kubernetes.api.model.ObjectMetaBuilder;
import io.fabric8.kubernetes.api.model.OwnerReference;
import java.util.Map;
import java.util.Optional;

/** The metadata that all children have in common. */
final class Metadata {

  static final String NAME = "app.kubernetes.io/name";
  static final String INSTANCE = "app.kubernetes.io/instance";
  static final String MANAGED_BY = "app.kubernetes.io/managed-by";

  /** The label selector of the children of all objects. The informers see no other objects. */
  static final String CHILDREN = "app.kubernetes.io/name=bellerophon-simple,app.kubernetes.io/managed-by=bellerophon";

  private Metadata() {}

  static Map<String, String> labelsOf(BellerophonSimple hero) {
    return Map.of(NAME, "bellerophon-simple", INSTANCE, hero.getMetadata().getName(), MANAGED_BY, "bellerophon");
  }

  /** Returns the labels that select the pods of an object. */
  static Map<String, String> selectorOf(BellerophonSimple hero) {
    return Map.of(NAME, "bellerophon-simple", INSTANCE, hero.getMetadata().getName());
  }

  /**
   * Returns the metadata of a child. It includes the owner reference, because the SDK's own sets neither controller
   * nor blockOwnerDeletion. The SDK adds none if there is a reference to the same owner.
   */
  static ObjectMeta of(BellerophonSimple hero) {
    return new ObjectMetaBuilder()
        .withName(hero.getMetadata().getName())
        .withNamespace(hero.getMetadata().getNamespace())
        .withLabels(labelsOf(hero))
        .addNewOwnerReference()
        .withApiVersion(hero.getApiVersion())
        .withKind(hero.getKind())
        .withName(hero.getMetadata().getName())
        .withUid(hero.getMetadata().getUid())
        .withController(true)
        .withBlockOwnerDeletion(true)
        .endOwnerReference()
        .build();
  }

  static Optional<OwnerReference> controllerOf(HasMetadata child) {
    return child.getMetadata().getOwnerReferences().stream()
        .filter(owner -> Boolean.TRUE.equals(owner.getController()))
        .findFirst();
  }
}
