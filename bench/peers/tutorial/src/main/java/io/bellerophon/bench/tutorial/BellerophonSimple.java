package io.bellerophon.bench.tutorial;

import io.fabric8.kubernetes.api.model.Namespaced;
import io.fabric8.kubernetes.client.CustomResource;
import io.fabric8.kubernetes.model.annotation.Group;
import io.fabric8.kubernetes.model.annotation.Kind;
import io.fabric8.kubernetes.model.annotation.Plural;
import io.fabric8.kubernetes.model.annotation.Singular;
import io.fabric8.kubernetes.model.annotation.Version;

/** The custom resource of the contract, which the operator reconciles. */
@Group("stable.simple-bellerophon.io")
@Version("v1")
@Kind("BellerophonSimple")
@Plural("sheroes")
@Singular("shero")
public class BellerophonSimple extends CustomResource<SimpleSpec, SimpleStatus> implements Namespaced {

  @Override
  protected SimpleSpec initSpec() {
    return null; // A record has no empty state.
  }

  @Override
  protected SimpleStatus initStatus() {
    return null;
  }
}
