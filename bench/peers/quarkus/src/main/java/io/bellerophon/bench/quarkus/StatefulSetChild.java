package io.bellerophon.bench.quarkus;

import io.fabric8.kubernetes.api.model.Container;
import io.fabric8.kubernetes.api.model.ContainerBuilder;
import io.fabric8.kubernetes.api.model.PodTemplateSpec;
import io.fabric8.kubernetes.api.model.PodTemplateSpecBuilder;
import io.fabric8.kubernetes.api.model.apps.StatefulSet;
import io.fabric8.kubernetes.api.model.apps.StatefulSetBuilder;
import io.fabric8.kubernetes.api.model.apps.StatefulSetStatus;
import io.javaoperatorsdk.operator.api.config.informer.Informer;
import io.javaoperatorsdk.operator.api.reconciler.Context;
import io.javaoperatorsdk.operator.processing.dependent.kubernetes.KubernetesDependent;
import io.javaoperatorsdk.operator.processing.event.source.filter.OnUpdateFilter;
import java.util.Map;
import java.util.Objects;

/** The StatefulSet of the servers. */
@KubernetesDependent(
    informer = @Informer(labelSelector = Metadata.CHILDREN, onUpdateFilter = StatefulSetChild.Changed.class))
public class StatefulSetChild extends ChildResource<StatefulSet> {

  private static final String CONFIG_ANNOTATION = "stable.simple-bellerophon.io/config";
  private static final long NOBODY = 65532L;

  public StatefulSetChild() {
    super(StatefulSet.class);
  }

  @Override
  protected StatefulSet desired(BellerophonSimple hero, Context<BellerophonSimple> context) {
    return new StatefulSetBuilder()
        .withMetadata(Metadata.of(hero))
        .withNewSpec()
        .withReplicas(hero.getSpec().replicas())
        .withServiceName(hero.getMetadata().getName())
        .withPodManagementPolicy("Parallel")
        .withNewSelector()
        .withMatchLabels(Metadata.selectorOf(hero))
        .endSelector()
        .withTemplate(templateOf(hero))
        .endSpec()
        .build();
  }

  private static PodTemplateSpec templateOf(BellerophonSimple hero) {
    return new PodTemplateSpecBuilder()
        .withNewMetadata()
        .withLabels(Metadata.labelsOf(hero))
        .withAnnotations(Map.of(CONFIG_ANNOTATION, ConfigMapChild.hashOf(hero)))
        .endMetadata()
        .withNewSpec()
        .withAutomountServiceAccountToken(false)
        .withNewSecurityContext()
        .withRunAsNonRoot(true)
        .withRunAsUser(NOBODY)
        .withRunAsGroup(NOBODY)
        .withFsGroup(NOBODY)
        .withNewSeccompProfile()
        .withType("RuntimeDefault")
        .endSeccompProfile()
        .endSecurityContext()
        .withContainers(serverOf(hero))
        .addNewVolume()
        .withName("config")
        .withNewConfigMap()
        .withName(hero.getMetadata().getName())
        .endConfigMap()
        .endVolume()
        .addNewVolume()
        .withName("tmp")
        .withNewEmptyDir()
        .endEmptyDir()
        .endVolume()
        .endSpec()
        .build();
  }

  private static Container serverOf(BellerophonSimple hero) {
    return new ContainerBuilder()
        .withName("server")
        .withImage(hero.getSpec().image())
        .addNewPort()
        .withName("http")
        .withContainerPort(8080)
        .withProtocol("TCP")
        .endPort()
        .withNewSecurityContext()
        .withAllowPrivilegeEscalation(false)
        .withReadOnlyRootFilesystem(true)
        .withNewCapabilities()
        .withDrop("ALL")
        .endCapabilities()
        .endSecurityContext()
        .addNewVolumeMount()
        .withName("config")
        .withMountPath("/etc/bellerophon")
        .withReadOnly(true)
        .endVolumeMount()
        .addNewVolumeMount()
        .withName("tmp")
        .withMountPath("/tmp")
        .endVolumeMount()
        .build();
  }

  /** Accepts updates that may need a repair, or that change a field from which the owner's status is computed. */
  public static class Changed implements OnUpdateFilter<StatefulSet> {

    @Override
    public boolean accept(StatefulSet now, StatefulSet before) {
      return OwnedMetadata.changed(now, before)
          || !now.getMetadata().getGeneration().equals(before.getMetadata().getGeneration())
          || news(now.getStatus(), before.getStatus());
    }

    private static boolean news(StatefulSetStatus now, StatefulSetStatus before) {
      return !Objects.equals(now.getObservedGeneration(), before.getObservedGeneration())
          || !Objects.equals(now.getReplicas(), before.getReplicas())
          || !Objects.equals(now.getReadyReplicas(), before.getReadyReplicas())
          || !Objects.equals(now.getUpdatedReplicas(), before.getUpdatedReplicas())
          || !Objects.equals(now.getCurrentRevision(), before.getCurrentRevision())
          || !Objects.equals(now.getUpdateRevision(), before.getUpdateRevision());
    }
  }
}
