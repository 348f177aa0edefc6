package io.bellerophon.bench.quarkus;

import io.fabric8.kubernetes.api.model.HasMetadata;

/** The part of the metadata of a child that the operator owns fields of. */
final class OwnedMetadata {

  private OwnedMetadata() {}

  static boolean changed(HasMetadata now, HasMetadata before) {
    return !now.getMetadata().getLabels().equals(before.getMetadata().getLabels())
        || !now.getMetadata().getOwnerReferences().equals(before.getMetadata().getOwnerReferences());
  }
}
