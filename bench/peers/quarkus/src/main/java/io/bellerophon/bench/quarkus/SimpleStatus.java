package io.bellerophon.bench.quarkus;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import io.fabric8.kubernetes.api.model.Condition;
import java.util.List;

/** The observed state. It is written only if it does not equal the current one. */
@JsonIgnoreProperties(ignoreUnknown = true)
public record SimpleStatus(
    long observedGeneration, int replicas, int readyReplicas, String selector, List<Condition> conditions) {}
