package io.bellerophon.bench.quarkus;

import io.fabric8.kubernetes.api.model.Service;
import io.fabric8.kubernetes.api.model.ServiceBuilder;
import io.javaoperatorsdk.operator.api.config.informer.Informer;
import io.javaoperatorsdk.operator.api.reconciler.Context;
import io.javaoperatorsdk.operator.processing.dependent.kubernetes.KubernetesDependent;
import io.javaoperatorsdk.operator.processing.event.source.filter.OnUpdateFilter;

/** The headless Service that gives each server a DNS name. */
@KubernetesDependent(
    informer = @Informer(labelSelector = Metadata.CHILDREN, onUpdateFilter = ServiceChild.Changed.class))
public class ServiceChild extends ChildResource<Service> {

  public ServiceChild() {
    super(Service.class);
  }

  @Override
  protected Service desired(BellerophonSimple hero, Context<BellerophonSimple> context) {
    return new ServiceBuilder()
        .withMetadata(Metadata.of(hero))
        .withNewSpec()
        .withClusterIP("None")
        .withSelector(Metadata.selectorOf(hero))
        .withPublishNotReadyAddresses(true)
        .addNewPort()
        .withName("http")
        .withPort(8080)
        .withProtocol("TCP")
        .withNewTargetPort("http")
        .endPort()
        .endSpec()
        .build();
  }

  /** Accepts updates that may need a repair. */
  public static class Changed implements OnUpdateFilter<Service> {

    @Override
    public boolean accept(Service now, Service before) {
      return OwnedMetadata.changed(now, before) || !now.getSpec().equals(before.getSpec());
    }
  }
}
