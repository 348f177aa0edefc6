package io.bellerophon.bench.tutorial;

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.Service;
import io.fabric8.kubernetes.api.model.apps.StatefulSet;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;

/** Runs the operator until the process is terminated or a watch breaks. */
public final class Main {

  private Main() {}

  public static void main(String[] args) {
    try {
      String port = System.getenv("METRICS_PORT");
      if (port != null) {
        Metrics.serve(Integer.parseInt(port));
      }
      KubernetesClient client = new KubernetesClientBuilder().build();
      Operator operator = new Operator(client);
      // List the children first. The operator would create the children of an object again if their caches were empty.
      operator.configs.listThenWatch(client, ConfigMap.class, operator::enqueue);
      operator.services.listThenWatch(client, Service.class, operator::enqueue);
      operator.servers.listThenWatch(client, StatefulSet.class, operator::enqueue);
      operator.heroes.listThenWatch(client, BellerophonSimple.class, operator::enqueue);
    } catch (Exception e) {
      e.printStackTrace();
      System.exit(1);
    }
  }
}
