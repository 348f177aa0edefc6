package io.bellerophon.bench.quarkus;

import io.fabric8.kubernetes.api.model.HasMetadata;

/** An object of the name of a child belongs to somebody else. */
class NameTakenException extends RuntimeException {

  private static final long serialVersionUID = 1;

  NameTakenException(HasMetadata taken) {
    super("%s %s belongs to somebody else; rename one of the two"
        .formatted(taken.getKind(), taken.getMetadata().getName()));
  }
}
