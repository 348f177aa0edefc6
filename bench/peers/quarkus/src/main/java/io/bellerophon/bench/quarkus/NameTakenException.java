package io.bellerophon.bench.quarkus;

import io.fabric8.kubernetes.api.model.HasMetadata;

/** Thrown if an object with the name of a child has another owner. */
class NameTakenException extends RuntimeException {

  private static final long serialVersionUID = 1;

  NameTakenException(HasMetadata taken) {
    super("%s %s belongs to another owner; rename one of the two"
        .formatted(taken.getKind(), taken.getMetadata().getName()));
  }
}
