package io.bellerophon.bench.quarkus;

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.javaoperatorsdk.operator.api.config.informer.Informer;
import io.javaoperatorsdk.operator.api.reconciler.Context;
import io.javaoperatorsdk.operator.processing.dependent.kubernetes.BooleanWithUndefined;
import io.javaoperatorsdk.operator.processing.dependent.kubernetes.KubernetesDependent;
import io.javaoperatorsdk.operator.processing.event.source.filter.OnUpdateFilter;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * The settings of the servers. Server-side apply is not the SDK's default for this type; it keeps the keys of other
 * clients.
 */
@KubernetesDependent(
    useSSA = BooleanWithUndefined.TRUE,
    informer = @Informer(labelSelector = Metadata.CHILDREN, onUpdateFilter = ConfigMapChild.Changed.class))
public class ConfigMapChild extends ChildResource<ConfigMap> {

  public ConfigMapChild() {
    super(ConfigMap.class);
  }

  @Override
  protected ConfigMap desired(BellerophonSimple hero, Context<BellerophonSimple> context) {
    return new ConfigMapBuilder().withMetadata(Metadata.of(hero)).withData(dataOf(hero)).build();
  }

  private static SortedMap<String, String> dataOf(BellerophonSimple hero) {
    SortedMap<String, String> data = new TreeMap<>();
    data.put("winged_horse_name", hero.getSpec().wingedHorseName());
    data.put("http_port", "8080");
    data.put("peers_service", hero.getMetadata().getName());
    return data;
  }

  /** Returns a hash of the settings. Pods with it in an annotation follow a change of the settings. */
  static String hashOf(BellerophonSimple hero) {
    try {
      MessageDigest sum = MessageDigest.getInstance("SHA-256");
      dataOf(hero).forEach((key, value) ->
          sum.update((key + "\0" + value + "\0").getBytes(StandardCharsets.UTF_8)));
      return HexFormat.of().formatHex(sum.digest(), 0, 8);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }

  /** Accepts updates that may need a repair. */
  public static class Changed implements OnUpdateFilter<ConfigMap> {

    @Override
    public boolean accept(ConfigMap now, ConfigMap before) {
      return OwnedMetadata.changed(now, before) || !now.getData().equals(before.getData());
    }
  }
}
