package io.bellerophon.bench.tutorial;

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.Container;
import io.fabric8.kubernetes.api.model.ContainerBuilder;
import io.fabric8.kubernetes.api.model.ObjectMeta;
import io.fabric8.kubernetes.api.model.ObjectMetaBuilder;
import io.fabric8.kubernetes.api.model.PodTemplateSpec;
import io.fabric8.kubernetes.api.model.PodTemplateSpecBuilder;
import io.fabric8.kubernetes.api.model.Service;
import io.fabric8.kubernetes.api.model.ServiceBuilder;
import io.fabric8.kubernetes.api.model.apps.StatefulSet;
import io.fabric8.kubernetes.api.model.apps.StatefulSetBuilder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;

/** Computes the desired children of an object. */
final class Children {

  static final String NAME = "app.kubernetes.io/name";
  static final String INSTANCE = "app.kubernetes.io/instance";
  static final String MANAGED_BY = "app.kubernetes.io/managed-by";

  private static final String CONFIG_ANNOTATION = "stable.simple-bellerophon.io/config";
  private static final long NOBODY = 65532L;

  private Children() {}

  static ConfigMap configOf(BellerophonSimple hero) {
    return new ConfigMapBuilder().withMetadata(metadataOf(hero)).withData(dataOf(hero)).build();
  }

  /** Returns the headless Service that gives each server a DNS name. */
  static Service serviceOf(BellerophonSimple hero) {
    return new ServiceBuilder()
        .withMetadata(metadataOf(hero))
        .withNewSpec()
        .withClusterIP("None")
        .withSelector(selectorOf(hero))
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

  static StatefulSet serversOf(BellerophonSimple hero) {
    return new StatefulSetBuilder()
        .withMetadata(metadataOf(hero))
        .withNewSpec()
        .withReplicas(hero.getSpec().replicas())
        .withServiceName(hero.getMetadata().getName())
        .withPodManagementPolicy("Parallel")
        .withNewSelector()
        .withMatchLabels(selectorOf(hero))
        .endSelector()
        .withTemplate(templateOf(hero))
        .endSpec()
        .build();
  }

  private static PodTemplateSpec templateOf(BellerophonSimple hero) {
    return new PodTemplateSpecBuilder()
        .withNewMetadata()
        .withLabels(labelsOf(hero))
        .withAnnotations(Map.of(CONFIG_ANNOTATION, hashOf(hero)))
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

  private static Map<String, String> labelsOf(BellerophonSimple hero) {
    return Map.of(NAME, "bellerophon-simple", INSTANCE, hero.getMetadata().getName(), MANAGED_BY, "bellerophon");
  }

  /** Returns the labels that select the pods of an object. */
  private static Map<String, String> selectorOf(BellerophonSimple hero) {
    return Map.of(NAME, "bellerophon-simple", INSTANCE, hero.getMetadata().getName());
  }

  private static ObjectMeta metadataOf(BellerophonSimple hero) {
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

  private static SortedMap<String, String> dataOf(BellerophonSimple hero) {
    SortedMap<String, String> data = new TreeMap<>();
    data.put("winged_horse_name", hero.getSpec().wingedHorseName());
    data.put("http_port", "8080");
    data.put("peers_service", hero.getMetadata().getName());
    return data;
  }

  /** Returns a hash of the settings. Pods with it in an annotation follow a change of the settings. */
  private static String hashOf(BellerophonSimple hero) {
    try {
      MessageDigest sum = MessageDigest.getInstance("SHA-256");
      dataOf(hero).forEach((key, value) ->
          sum.update((key + "\0" + value + "\0").getBytes(StandardCharsets.UTF_8)));
      return HexFormat.of().formatHex(sum.digest(), 0, 8);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }
}
