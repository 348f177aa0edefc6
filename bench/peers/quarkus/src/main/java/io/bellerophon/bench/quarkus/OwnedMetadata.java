package io.bellerophon.bench.quarkus;

import io.fabric8.kubernetes.api.model.HasMetadata;

/** The metadata of a child in which the operator owns fields: labels and owner references. */
final class OwnedMetadata {

  private OwnedMetadata() {}

  static boolean changed(HasMetadata now, HasMetadata before) {
    return !now.getMetadata().getLabels().equals(before.getMetadata().getLabels())
        || !now.getMetadata().getOwnerReferences().equals(before.getMetadata().getOwnerReferences());
  }
}
